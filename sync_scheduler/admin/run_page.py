"""The page of one Run: verdict and error first, then how it came about."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sync_scheduler import clock, lifecycle
from sync_scheduler.admin import (
    active,
    causes,
    durations,
    marks,
    moments,
    payloads,
    run_rows,
    tracebacks,
)
from sync_scheduler.admin.address import query
from sync_scheduler.intake import trail
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.redaction import redacted_text, redacted_value
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Attempt, DeadLetter, Node, Run, Step, Term
from sync_scheduler.store.locking import alias, database_now

if TYPE_CHECKING:
    from sync_scheduler.admin.run_actions import RunActions

_MOST_EVENTS = 200
_MOST_ATTEMPTS = 100
_UNKNOWN_OUTCOMES = frozenset({Reason.NODE_LOST})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    attempt: Attempt
    mark: marks.Mark
    started: SafeString
    took: str
    error: str
    retry: str


_OUTCOMES = {
    Attempt.Outcome.COMPLETED: marks.OK,
    Attempt.Outcome.FAILED: marks.FAILED,
    Attempt.Outcome.RETRIED: marks.FAILED,
    Attempt.Outcome.TIMED_OUT: marks.TIMED_OUT,
    Attempt.Outcome.CANCELLED: marks.CANCELLED,
    Attempt.Outcome.CRASHED: marks.FAILED,
    Attempt.Outcome.LOST: marks.WARNING,
    Attempt.Outcome.GIVEN_BACK: marks.SKIPPED,
}


def read(admin: RunActions, request: HttpRequest, run: Run) -> dict[str, Any]:
    """Everything that the page shows."""
    now = clock.now()
    told = [_masked(run, event) for event in trail.events(run)[-_MOST_EVENTS:]]
    attempts = list(
        Attempt.objects.using(alias()).filter(run_id=run.id).order_by("-id")[:_MOST_ATTEMPTS]
    )[::-1]
    for attempt in attempts:
        attempt.error = redacted_text(run.job, run.input, attempt.error)
        attempt.traceback = redacted_text(run.job, run.input, attempt.traceback)
    payloads.hide(run, run.input)
    error = run.error
    traceback = next((a.traceback for a in reversed(attempts) if a.traceback), "")
    usual = durations.usual(durations.habits()).get(run.job)
    may_see = admin.may(request, "view_payload", run)
    letter = DeadLetter.objects.filter(run_id=run.id).order_by("-id").first()
    return {
        "run": run,
        "name": run.schedule_name or run.job,
        "mark": marks.of_run(run.status, attempt=run.attempt, reason=run.reason),
        "verdict": verdict(run, attempts, now),
        "error": causes.last_line(error),
        "more_error": error.strip() if len(error.strip()) > len(causes.last_line(error)) else "",
        "reason": lifecycle.sentence(run.reason),
        "frames": tracebacks.split(traceback) if traceback else None,
        "attempts": [_row(attempt, now) for attempt in attempts],
        "milestones": milestones(run, now),
        "cause_url": _same_cause(admin, error),
        "trail": told,
        "key": redacted_text(run.job, run.input, run.key or ""),
        "steps": list(Step.objects.using(alias()).filter(run_id=run.id).order_by("id")[:200]),
        "may_see_payload": may_see,
        "input": payloads.input_text(run) if may_see else "",
        "result": payloads.result_text(run) if may_see and run.result is not None else "",
        "usual": moments.took(usual) if usual else "",
        "elapsed": _elapsed(run, now),
        "percent": None if run.progress is None else round(run.progress * 100),
        "stuck": _stuck(run),
        "neighbours": _neighbours(admin, run),
        "origin": _origin(admin, run),
        "retries": _retries(admin, run),
        "actions": _actions(admin, request, run, letter),
        "schedule_url": admin.url("change", run.schedule_id, model="schedule")
        if run.schedule_id is not None
        else "",
        "letter": letter,
    }


def _masked(run: Run, event: trail.TrailEvent) -> trail.TrailEvent:
    return dataclasses.replace(event, data=redacted_value(run.job, run.input, event.data))


def verdict(run: Run, attempts: list[Attempt], now: dt.datetime) -> str:
    """What became of it, in one line."""
    took = moments.took(moments.between(run.started_at, run.finished_at))
    words = {"n": run.attempt, "max": run.max_attempts, "took": took}
    last = attempts[-1] if attempts else None
    if last is not None and last.outcome == Attempt.Outcome.LOST and run.status != State.COMPLETED:
        return _(
            "Outcome unknown: node %(node)s stopped reporting. The job may have taken effect."
        ) % {"node": last.node}
    if run.is_finished:
        return _ended(run, words)
    if run.status == State.RUNNING:
        return _("Running for %(took)s, attempt %(n)s of %(max)s") % {
            **words,
            "took": moments.span(moments.between(run.started_at, now) or 0),
        }
    return run_rows.waits_for(run, now)


def _ended(run: Run, words: dict[str, Any]) -> str:
    again = run.attempt > 1
    texts = {
        State.COMPLETED: _("Completed in %(took)s, on attempt %(n)s of %(max)s")
        if again
        else _("Completed in %(took)s"),
        State.FAILED: _("Failed after %(n)s attempts, the last one took %(took)s")
        if again
        else _("Failed after %(took)s")
        if run.attempt
        else _("Not dispatched"),
        State.TIMED_OUT: _("Timed out after %(took)s, on attempt %(n)s of %(max)s"),
        State.CANCELLED: _("Cancelled"),
        State.SKIPPED: _("Skipped: it never ran"),
    }
    return texts[State(run.status)] % words


def milestones(run: Run, now: dt.datetime) -> list[dict[str, Any]]:
    """Due, submitted, to be run, started, ended, with the delays between."""
    named: list[tuple[str, dt.datetime | None]] = [
        (_("due"), run.slot),
        (_submitted(run), run.submitted_at),
        (_("to be run"), run.run_at if run.run_at > run.submitted_at else None),
        (_("started"), run.started_at if run.status != State.SKIPPED else None),
        (_("ended"), run.finished_at),
    ]
    found: list[dict[str, Any]] = []
    before: dt.datetime | None = None
    for title, at in named:
        if at is None:
            continue
        delay = "" if before is None or at < before else moments.took((at - before).total_seconds())
        found.append(
            {
                "title": title,
                "at": moments.exact(at, now=now, seconds=True),
                "delay": delay,
            }
        )
        before = at
    return found


def _submitted(run: Run) -> str:
    """Who dispatched it, for a run that was born from a slot."""
    term = None if run.epoch is None else Term.objects.filter(epoch=run.epoch).first()
    if term is None:
        return _("submitted")
    return _("dispatched by %(node)s") % {"node": term.holder}


def _same_cause(admin: RunActions, error: str) -> str:
    """Failed runs whose error begins alike: by the name of the exception."""
    name = causes.last_line(error).split(":")[0].strip()
    if not name or " " in name:
        return ""
    return admin.url("changelist") + query({"state": "failed", "cause": name})


def _row(attempt: Attempt, now: dt.datetime) -> AttemptRow:
    return AttemptRow(
        attempt=attempt,
        mark=_OUTCOMES[Attempt.Outcome(attempt.outcome)],
        started=moments.element(attempt.started_at, now=now, seconds=True),
        took=moments.took(moments.between(attempt.started_at, attempt.finished_at)),
        error=causes.last_line(attempt.error),
        retry=moments.clock_time(attempt.retry_at) if attempt.retry_at else "",
    )


def _elapsed(run: Run, now: dt.datetime) -> str:
    if run.status != State.RUNNING:
        return ""
    return moments.took(moments.between(run.started_at, now))


def _stuck(run: Run) -> str:
    """For a run that will not come to an end by itself: what will happen, and when."""
    if run.status != State.RUNNING:
        return ""
    node = Node.objects.filter(name=run.node).first()
    return active.lost_note(run, node, database_now())


def _neighbours(admin: RunActions, run: Run) -> dict[str, str]:
    """The runs of the same schedule before and after this one."""
    if run.schedule_id is None:
        return {}
    same = Run.objects.filter(schedule_id=run.schedule_id).values_list("id", flat=True)
    before = same.filter(id__lt=run.id).order_by("-id").first()
    after = same.filter(id__gt=run.id).order_by("id").first()
    return {
        "previous": admin.url("change", before) if before else "",
        "next": admin.url("change", after) if after else "",
    }


def _origin(admin: RunActions, run: Run) -> dict[str, str]:
    """What it was born from, and by whose hand."""
    by = str(run.meta.get("by") or run.meta.get("retried_by") or "")
    return {
        "trigger": str(run.get_trigger_display()),
        "by": by,
        "why": str(run.meta.get("why") or ""),
        "url": admin.url("change", run.retry_of) if run.retry_of else "",
        "of": str(run.retry_of)[-8:] if run.retry_of else "",
    }


def _retries(admin: RunActions, run: Run) -> str:
    """The newest run that repeats this one, if it can be found along an index."""
    if run.schedule_id is None or not run.is_finished:
        return ""
    found = (
        Run.objects.filter(schedule_id=run.schedule_id, id__gt=run.id, retry_of=run.id)
        .order_by("-id")
        .values_list("id", flat=True)
        .first()
    )
    return admin.url("change", found) if found else ""


def _actions(
    admin: RunActions, request: HttpRequest, run: Run, letter: DeadLetter | None
) -> list[dict[str, Any]]:
    """The buttons; one that the user may not press says which permission is missing."""
    wanted: list[tuple[str, str, str, bool]] = [
        (_("Retry…"), "retry", "retry_run", run_rows.can_retry(run)),
        (_("Run again with another input…"), "replay", "retry_run", run.is_finished),
        (_("Cancel…"), "cancel", "cancel_run", not run.is_finished),
    ]
    if registry.find(run.job) is None:
        wanted = [one for one in wanted if one[1] == "cancel"]
    found = [
        {
            "title": title,
            "key": name,
            "url": admin.url(name, run.id, model="run"),
            "missing": "" if admin.may(request, permission, run) else permission,
        }
        for title, name, permission, fits in wanted
        if fits
    ]
    if letter is not None and not letter.resolution:
        found.append(
            {
                "title": _("Discard…"),
                "key": "discard",
                "url": admin.url("discard", model="deadletter") + query({"run": run.id}),
                "missing": "" if admin.may(request, "retry_run", letter) else "retry_run",
            }
        )
    if run.schedule_id is not None:
        url = admin.url("change", run.schedule_id, model="schedule")
        found.append({"title": _("Open schedule"), "key": "schedule", "url": url, "missing": ""})
    return found
