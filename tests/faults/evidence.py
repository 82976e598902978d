"""What is kept when a fault test fails: logs, rows, the ledger, and the story of each Run.

Everything goes into a folder of its own below `FAULTS_EVIDENCE` (the system's temporary folder if
that is not set), and the failure says where.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.db import Error
from django.db.models import Model

from sync_scheduler.models import Attempt, DeadLetter, Node, Run, Schedule, Term
from tests.faults import ledger
from tests.faults.seed import SEED
from tests.testapp.models import Effect

_MOST_STORIES = 1000
_numbers = itertools.count(1)


def keep(ledger_path: Path, logs: Iterable[Path], why: str) -> str:
    """Store everything; one sentence that says where, and how to make the same choices again."""
    folder = _folder()
    (folder / "why.txt").write_text(why)
    for log in logs:
        if log.exists():
            shutil.copy(log, folder / log.name)
    if ledger_path.exists():
        shutil.copy(ledger_path, folder / "ledger.txt")
    # The database may be what has failed: then logs and ledger are all there is.
    lacking = []
    for model in (Schedule, Run, Attempt, Term, Node, DeadLetter, Effect):
        try:
            _dump(model, folder)
        except Error as error:
            lacking.append(f"{model.__name__}: {error}")
    if lacking:
        (folder / "not-kept.txt").write_text("\n".join(lacking))
    sources = (_started(ledger_path),) if lacking else (_rows(), _attempts(), _started(ledger_path))
    _write_stories(itertools.chain(*sources), folder, why)
    return f"evidence: {folder}; the same choices again: FAULTS_SEED={SEED}"


def _folder() -> Path:
    root = Path(os.environ.get("FAULTS_EVIDENCE") or tempfile.gettempdir())
    name = os.environ.get("PYTEST_CURRENT_TEST", "test").rpartition("::")[2].partition(" ")[0]
    plain = re.sub(r"[^\w-]+", "-", name)[:80]
    folder = root / "sync-scheduler-faults" / f"{os.getpid()}-{next(_numbers)}-{plain}"
    folder.mkdir(parents=True)
    return folder


def _dump(model: type[Model], folder: Path) -> None:
    with (folder / f"{model.__name__.lower()}.jsonl").open("w") as file:
        for row in model._default_manager.order_by("pk").values().iterator():
            file.write(json.dumps(row, default=str) + "\n")


# ---------------------------------------------------------------------- one Run's story


def _write_stories(told: Iterable[tuple[str, str, str]], folder: Path, why: str) -> None:
    happened: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for run_id, at, what in told:
        happened[run_id].append((at, what))
    # First those that the failure names, then those with the most to tell.
    order = sorted(happened, key=lambda run_id: (run_id not in why, -len(happened[run_id])))
    with (folder / "stories.txt").open("w") as file:
        for run_id in order[:_MOST_STORIES]:
            file.write(f"run {run_id}\n")
            file.writelines(f"  {at}  {what}\n" for at, what in sorted(happened[run_id]))


def _rows() -> Iterator[tuple[str, str, str]]:
    fields = ("schedule_name", "slot", "submitted_at", "status", "reason", "node", "attempt")
    rows: Any = Run.objects.order_by().values_list("id", "epoch", "token", "finished_at", *fields)
    for run_id, epoch, token, finished, name, slot, submitted, *rest in rows:
        yield str(run_id), _at(submitted), f"submitted {name} {slot} under epoch {epoch}"
        status, reason, node, attempt = rest
        facts = f"{status} {reason} attempt={attempt} token={token} node={node}"
        yield str(run_id), _at(finished), f"row: {facts}"


def _attempts() -> Iterator[tuple[str, str, str]]:
    for one in Attempt.objects.order_by("id"):
        facts = f"attempt {one.number} on {one.node}"
        yield str(one.run_id), _at(one.started_at), f"{facts} began"
        yield str(one.run_id), _at(one.finished_at), f"{facts} ended: {one.outcome} {one.error}"


def _started(path: Path) -> Iterator[tuple[str, str, str]]:
    for entry in ledger.read(path):
        at = "" if entry.at is None else _at(dt.datetime.fromtimestamp(entry.at, dt.UTC))
        yield entry.run, at, f"ledger: {entry.kind} {entry.label} in process {entry.pid}"


def _at(instant: dt.datetime | None) -> str:
    # What has no time sorts behind what has.
    return "~" if instant is None else instant.astimezone(dt.UTC).strftime("%H:%M:%S.%f")
