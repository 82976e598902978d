"""Run rows: Runs as a list shows them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sync_scheduler import lifecycle
from sync_scheduler.admin import causes, marks, moments
from sync_scheduler.admin.payloads import hide_in_runs
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run

# What a list needs; inputs and results, which may be large, stay in the database.
COLUMNS = (
    "id",
    "job",
    "queue",
    "schedule_id",
    "schedule_name",
    "slot",
    "trigger",
    "status",
    "attempt",
    "max_attempts",
    "run_at",
    "submitted_at",
    "started_at",
    "finished_at",
    "error",
    "reason",
    "progress",
    "progress_message",
    "node",
    "waiting_for",
    "retry_of",
    "namespace",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    run: Run
    mark: marks.Mark
    name: str
    cause: str
    started: SafeString
    took: str
    usual: str
    attempts: str
    ago: SafeString


def rows(
    runs: Sequence[Run], *, now: dt.datetime, usual: dict[str, float] | None = None
) -> list[RunRow]:
    hide_in_runs(runs)
    return [row(run, now=now, usual=(usual or {}).get(run.job)) for run in runs]


def row(run: Run, *, now: dt.datetime, usual: float | None = None) -> RunRow:
    end = run.finished_at or (now if run.status == State.RUNNING else None)
    seconds = moments.between(run.started_at, end) if run.status != State.SKIPPED else None
    return RunRow(
        run=run,
        mark=marks.of_run(run.status, attempt=run.attempt, reason=run.reason),
        name=run.schedule_name or run.job,
        cause=cause(run, now),
        started=started(run, now),
        took=moments.took(seconds),
        usual=_beyond(seconds, usual),
        attempts=_attempts(run),
        ago=moments.ago(run.finished_at or run.submitted_at, now=now),
    )


def cause(run: Run, now: dt.datetime) -> str:
    """One line: why it failed, waits or was skipped, or how far it is."""
    if run.status == State.RUNNING:
        return _progress(run)
    if run.status == State.SUBMITTED:
        return waits_for(run, now)
    if run.status == State.COMPLETED:
        return causes.last_line(run.reason)
    return causes.in_words(run.error, run.reason)


def waits_for(run: Run, now: dt.datetime) -> str:
    if run.run_at > now:
        when = moments.away(run.run_at, now)
        if run.attempt:
            return _("Next attempt %(when)s: %(error)s") % {
                "when": when,
                "error": causes.in_words(run.error, run.reason),
            }
        return _("To be run %(when)s") % {"when": when}
    if run.waiting_for:
        return _("Waits for its turn: another run holds %(what)s") % {"what": run.waiting_for}
    return _("Ready in queue %(queue)s") % {"queue": run.queue}


def started(run: Run, now: dt.datetime) -> SafeString:
    if run.status == State.SKIPPED:
        return moments.element(run.slot, now=now, otherwise=_("never started"))
    if run.started_at is None:
        return moments.element(None, now=now, otherwise=_("not started"))
    return moments.element(run.started_at, now=now)


def _progress(run: Run) -> str:
    parts = []
    if run.progress is not None:
        parts.append(f"{run.progress:.0%}")
    if run.progress_message:
        parts.append(run.progress_message)
    return ", ".join(parts)


def _attempts(run: Run) -> str:
    if run.attempt == 0 or (run.attempt == 1 and _needs_no_count(run)):
        return ""
    return f"{run.attempt}/{run.max_attempts}"


def _needs_no_count(run: Run) -> bool:
    """The first and only attempt, or the first one that was enough."""
    return run.max_attempts == 1 or run.status == State.COMPLETED


def _beyond(seconds: float | None, usual: float | None) -> str:
    if seconds is None or not usual or seconds < 3 * usual or seconds < 1:
        return ""
    return _("%(times)s x usual") % {"times": f"{seconds / usual:.0f}"}


def can_retry(run: Run) -> bool:
    return run.status in {*lifecycle.FAILURES, State.CANCELLED}
