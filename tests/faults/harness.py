"""Real nodes in processes of their own, and what was really started.

A `Site` is everything that a test's nodes share: the database that Django is connected to, the
environment that configures them, and a ledger file. Each node is a `runscheduler` in its own
process group, so that a test can kill or freeze it with its children, or one of them alone. What
must hold afterwards is asked by the `auditor`, whatever the test itself asserts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

from sync_scheduler import lifecycle
from sync_scheduler.models import Attempt, Leader, Run, Term
from sync_scheduler.store import nodes
from sync_scheduler.store.locking import database_now
from tests.faults import arming, auditor, database
from tests.faults.bounds import bound
from tests.faults.node import PROJECT, Node
from tests.faults.resources import Survivor
from tests.services.server import wait_until
from tests.testapp.models import Effect

__all__ = ["QUICK", "Node", "Site", "audit", "pause", "take_back_lost"]

# Short leases, so that the death of a node is noticed within a test's patience.
QUICK = {
    # A node whose pulse waits for its turn on a busy machine is late and not lost.
    "SYNC_SCHEDULER_NODE_LEASE": str(bound(2, beside_others=4)),
    "SYNC_SCHEDULER_NODE_HEARTBEAT": "0.5",
    "SYNC_SCHEDULER_LEADER_LEASE": "1",
    "SYNC_SCHEDULER_LEADER_HEARTBEAT": "0.1",
    "SYNC_SCHEDULER_POLL_INTERVAL": "0.2",
    "SYNC_SCHEDULER_SWEEP_INTERVAL": "0.5",
    "SYNC_SCHEDULER_RECONCILE_INTERVAL": "0.5",
    "SYNC_SCHEDULER_SHUTDOWN_GRACE": "20",
}


class Site:
    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        # By this name PostgreSQL knows the sessions of our nodes.
        name = {"PGAPPNAME": f"site-{uuid.uuid4().hex}"}
        self.environment = {**QUICK, **name, **(environment or {})}
        self.nodes: list[Node] = []
        self.kills = 0
        self.excuses: dict[str, str] = {}
        auditor.enter(self)

    def start(
        self,
        *options: str,
        wait: bool = True,
        armed: Mapping[str, str] | None = None,
        **environment: str,
    ) -> Node:
        """A node with these options; failpoints and `environment` are for this one alone."""
        options = options or ("--no-dispatch",)
        node = Node(
            [sys.executable, "-m", "django", "runscheduler", *options],
            self._environment({**environment, **(armed or {})}),
            self.folder / f"node-{len(self.nodes)}.log",
        )
        self.nodes.append(node)
        if wait:
            node.wait_started()
        return node

    def run_python(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A process of a user's project: Django is set up, then the code runs."""
        return subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{code}"],
            cwd=PROJECT,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "LEDGER_FILE": str(self.ledger),
            **self.environment,
            **more,
        }

    def close(self) -> None:
        auditor.leave(self)
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.process.wait(60)
        database.end_sessions(self.environment["PGAPPNAME"])

    # What the auditor asks for.

    @property
    def ledger_path(self) -> Path:
        return self.ledger

    @property
    def redis_address(self) -> str | None:
        return self.environment.get("SYNC_SCHEDULER_REDIS_URL")

    @property
    def database_ports(self) -> set[int]:
        """Where nodes reach the database: directly, or through a proxy."""
        url = self._environment({}).get("TEST_DATABASE_URL", "")
        return {port for port in (urlsplit(url).port,) if port is not None}

    def survivors(self) -> list[Survivor]:
        return [node.survivor() for node in self.nodes if node.is_running]

    def log_files(self) -> list[Path]:
        return [node.log for node in self.nodes]

    @contextmanager
    def looking(self) -> Generator[None, None, None]:
        if not connection.in_atomic_block:
            connection.close()  # a server that was away has broken it
        yield

    # Failpoints, leadership.

    def armed(self, points: str) -> dict[str, str]:
        """The environment of a node with these failpoints (see `sync_scheduler.failpoints`)."""
        return arming.armed(self.folder, points)

    def fired(self, name: str) -> list[int]:
        """The ids of the processes that a failpoint has hit, in order."""
        return arming.fired(self.folder, name)

    def epoch(self) -> int:
        return Leader.objects.values_list("epoch", flat=True).first() or 0

    def epoch_of(self, pid: int) -> int:
        """The newest term of this process, which may be over and may not be recorded yet."""
        holder = f":{pid}:"
        rows = (model.objects.filter(holder__contains=holder) for model in (Leader, Term))
        return max(
            (epoch for row in rows for epoch in row.values_list("epoch", flat=True)), default=0
        )

    def leader(self) -> Node | None:
        """The node that leads by the database's word, if it is one of ours and alive."""
        row = Leader.objects.filter(expires_at__gt=database_now()).first()
        pid = int(row.holder.split(":")[1]) if row is not None and row.holder else None
        return next((node for node in self.nodes if node.pid == pid and node.is_running), None)

    def await_leader(self, but: Node | None = None, seconds: float = 60) -> Node:
        self.wait(lambda: self.leader() not in (None, but), "somebody leads", seconds)
        found = self.leader()
        return found if found is not None else self.await_leader(but, seconds)

    # What really happened.

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def starts(self, run: Run) -> int:
        """How often a handler was really entered for this Run."""
        return sum(1 for line in self.lines() if line.startswith("start") and str(run.id) in line)

    def wait_line(self, *parts: str, seconds: float = 60) -> None:
        self.wait(
            lambda: any(all(part in line for part in parts) for line in self.lines()),
            f"the ledger says {' '.join(parts)}",
            seconds,
        )

    def wait_ended(self, runs: Iterable[Run], seconds: float = 60) -> None:
        ids = [run.id for run in runs]

        def ended() -> bool:
            return not any(
                Run.objects.filter(id__in=ids[i : i + 500], status__in=lifecycle.ACTIVE).exists()
                for i in range(0, len(ids), 500)
            )

        self.wait(ended, f"{len(ids)} runs have ended", seconds)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        try:
            wait_until(condition, seconds=seconds, what=what, every=0.03)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def report(self) -> str:
        """What a person needs to see when something has gone wrong."""
        states = Counter(Run.objects.values_list("job", "status", "reason"))
        logs = "\n".join(f"--- {n.log.name}\n{n.output()[-4000:]}" for n in self.nodes)
        return f"runs: {dict(states)}\n{logs}"


def take_back_lost(lease: float = 2.0) -> int:
    """What the leader's sweep does for nodes that have been silent for a lease."""
    taken = 0
    for silence in nodes.silences():
        if silence.seconds >= lease:
            taken += len(nodes.take_back(silence).accepted)
    return taken


def audit(site: Site, *, atomic: Iterable[Run] = (), plain: Iterable[Run] = ()) -> None:
    """The invariants that no fault may break; call when everything has ended.

    I3: everything is terminal. I4: one effect per completed atomic run, none otherwise. I5: a
    plain handler was entered once, unless an attempt says why it was entered again.
    """
    left = Run.objects.filter(status__in=lifecycle.ACTIVE)
    assert not left.exists(), f"I3: {left.count()} runs never ended\n{site.report()}"
    atomic = list(atomic)
    if atomic:
        effects = Counter(Effect.objects.values_list("run", flat=True))
        completed = {
            str(run_id)
            for run_id in Run.objects.filter(status="completed").values_list("id", flat=True)
        }
        wrong = {
            str(run.id): effects[str(run.id)]
            for run in atomic
            if effects[str(run.id)] != (1 if str(run.id) in completed else 0)
        }
        assert not wrong, f"I4: effects that are not exactly one: {list(wrong.items())[:10]}"
    for run in plain:
        excused = Attempt.objects.filter(run_id=run.id).exclude(outcome="completed").count()
        assert site.starts(run) <= 1 + excused, f"I5: {run.id} was entered {site.starts(run)} times"


def pause(seconds: float) -> None:
    """Let time pass where it is the time itself that is tested."""
    time.sleep(seconds)
