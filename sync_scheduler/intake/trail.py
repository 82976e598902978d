"""The audit trail of a Run: read off the Run, its Attempts and its Events, oldest first."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import F

from sync_scheduler import clock, conf
from sync_scheduler.coordination import joins
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Event, Run

# Which fact of the Run an event tells: the third start, say. A time does not name it, since an
# attempt begins at the claim for who looks while it runs, and where its child says so afterwards.
_Mark = tuple[str, int]
_ORDER = {"submitted": 0, "started": 1, "heartbeat": 2}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrailEvent:
    kind: str
    at: dt.datetime
    node: str = ""
    attempt: int = 0
    data: dict[str, Any] = dataclasses.field(default_factory=dict)


def events(run: Run) -> list[TrailEvent]:
    """Everything that has happened to the Run so far."""
    return [event for _, event in _marked(run)]


def follow(run: Run, timeout: float | None = None) -> Iterator[TrailEvent]:
    """Yield what happened and what happens, until the Run has ended or the time is over."""
    deadline = None if timeout is None else clock.monotonic() + timeout
    seen: set[_Mark] = set()
    waiter = joins.Waiter()
    while True:
        for mark, event in _marked(run):
            if mark not in seen:
                seen.add(mark)
                yield event
        if run.is_finished:
            return
        left = None if deadline is None else deadline - clock.monotonic()
        if left is not None and left <= 0:
            return
        waiter.wait(1.0 if left is None else left)


def _marked(run: Run) -> list[tuple[_Mark, TrailEvent]]:
    using = conf.get().DATABASE
    run.refresh_from_db()
    submitted = TrailEvent(
        kind="submitted",
        at=run.submitted_at,
        data={"trigger": run.trigger, "run_at": run.run_at.isoformat()},
    )
    found = [(("submitted", 0), submitted)]
    # With the Run's own state in one statement, so that no attempt both runs and has ended.
    attempts = list(
        Attempt.objects.using(using)
        .filter(run_id=run.id)
        .annotate(
            run_status=F("run__status"),
            run_started_at=F("run__started_at"),
            run_node=F("run__node"),
            run_attempt=F("run__attempt"),
        )
        .order_by("id")
    )
    for number, attempt in enumerate(attempts):
        found += _of_attempt(number, attempt)
    if (started := _under_way(run, attempts)) is not None:
        found.append((("started", len(attempts)), started))
    for event in Event.objects.using(using).filter(run_id=run.id).order_by("id"):
        if event.kind == "cancelled" and event.node:
            continue  # its attempt says so already
        found.append((("event", event.pk), _of_event(event)))
    if run.is_finished and not any(event.kind == run.status for _, event in found):
        found.append((("finished", 0), _end_of(run)))
    return sorted(found, key=lambda one: (one[1].at, one[1].attempt, _ORDER.get(one[1].kind, 3)))


def _of_attempt(number: int, attempt: Attempt) -> list[tuple[_Mark, TrailEvent]]:
    data: dict[str, Any] = {}
    if attempt.error:
        data["error"] = attempt.error
    if attempt.retry_at is not None:
        data["retry_at"] = attempt.retry_at.isoformat()
    kind = _kind(attempt)
    if kind != attempt.outcome:
        data["outcome"] = attempt.outcome
    started = TrailEvent(
        kind="started", at=attempt.started_at, node=attempt.node, attempt=attempt.number
    )
    ended = TrailEvent(
        kind=kind,
        at=attempt.finished_at,
        node=attempt.node,
        attempt=attempt.number,
        data=data,
    )
    return [(("started", number), started), (("ended", number), ended)]


def _kind(attempt: Attempt) -> str:
    """What an attempt's outcome is called in the trail."""
    if attempt.outcome == Attempt.Outcome.GIVEN_BACK:
        return attempt.outcome
    if attempt.retry_at is not None or attempt.outcome == Attempt.Outcome.RETRIED:
        return "retry"
    if attempt.outcome in {Attempt.Outcome.CRASHED, Attempt.Outcome.LOST}:
        return State.FAILED.value  # once too often
    return attempt.outcome


def _under_way(run: Run, attempts: Sequence[Any]) -> TrailEvent | None:
    """The beginning of an attempt that has not ended."""
    if attempts:
        last = attempts[-1]
        facts = (last.run_status, last.run_started_at, last.run_node, last.run_attempt)
    else:
        facts = (run.status, run.started_at, run.node, run.attempt)
    status, at, node, number = facts
    if status != State.RUNNING or at is None:
        return None
    return TrailEvent(kind="started", at=at, node=node, attempt=number)


def _of_event(event: Event) -> TrailEvent:
    return TrailEvent(
        kind=event.kind,
        at=event.at,
        node=event.node,
        attempt=event.attempt,
        data=event.data,
    )


def _end_of(run: Run) -> TrailEvent:
    """Of a Run that ended without an attempt: ruled out, or never known to a node."""
    data = {"reason": run.reason}
    if run.error:
        data["error"] = run.error
    return TrailEvent(
        kind=run.status, at=run.finished_at or run.submitted_at, attempt=run.attempt, data=data
    )
