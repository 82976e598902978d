"""Payloads: inputs, results and errors on a page, with what must not be seen taken out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.translation import gettext as _

from sync_scheduler import lifecycle
from sync_scheduler.errors import SchedulerError
from sync_scheduler.jobs import codec, registry
from sync_scheduler.jobs.redaction import (
    has_secrets,
    redacted_input,
    redacted_text,
    redacted_value,
)
from sync_scheduler.models import DeadLetter, Run, Schedule

_LONGEST = 20_000


def sensitive_names(job: str) -> frozenset[str]:
    found = registry.find(job)
    return frozenset(found.policy.sensitive) if found is not None else frozenset()


def input_text(row: Run | Schedule) -> str:
    return _undecodable(row.input) or readable(redacted_input(row.job, row.input))


def result_text(run: Run) -> str:
    return _undecodable(run.result) or readable(redacted_value(run.job, run.input, run.result))


def _undecodable(value: Any) -> str:
    """Why the stored value cannot be shown; empty: it can."""
    try:
        codec.unseal(value, _("The stored value"))
    except SchedulerError as error:
        return str(error)
    return ""


def readable(value: Any) -> str:
    """JSON that people can read, bounded."""
    shown = json.dumps(value, indent=2, ensure_ascii=False)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}\n[…]"


def hide_in_runs(runs: Sequence[Run]) -> Sequence[Run]:
    """Mask secrets in what these Runs say of themselves, as held here. At most one query."""
    inputs = _inputs(
        (run.id, run.job) for run in runs if run.error or run.reason or run.progress_message
    )
    for run in runs:
        if run.id in inputs:
            hide(run, inputs[run.id])
    return runs


def hide(run: Run, given: dict[str, Any]) -> None:
    """Mask the secrets of this input in every text of the Run."""
    run.error = redacted_text(run.job, given, run.error)
    if run.reason not in lifecycle.SENTENCES:  # a word for programs holds no secret
        run.reason = redacted_text(run.job, given, run.reason)
    run.progress_message = redacted_text(run.job, given, run.progress_message)


def hide_in_letters(letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
    """The same for dead letters. Where the Run is gone, so is what its secrets were."""
    inputs = _inputs((one.run_id, one.job) for one in letters if one.run_id is not None)
    for letter in letters:
        if letter.run_id in inputs:
            given = inputs[letter.run_id]
            letter.error = redacted_text(letter.job, given, letter.error)
            letter.reason = redacted_text(letter.job, given, letter.reason)
        elif letter.run_id is not None and has_secrets(letter.job):
            letter.error, letter.reason = letter.error.split(":")[0][:100], ""
    return letters


def _inputs(wanted: Iterable[tuple[uuid.UUID, str]]) -> dict[uuid.UUID, dict[str, Any]]:
    ids = [run_id for run_id, job in wanted if has_secrets(job)]
    if not ids:
        return {}
    return dict(Run.objects.filter(id__in=ids).values_list("id", "input"))
