"""The audit trail of a Run: read off the Run, its Attempts and its Events, oldest first."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

from sync_scheduler import clock, conf
from sync_scheduler.coordination import joins
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Event, Run

# What an attempt's outcome is called in the trail.
_KINDS = {
    Attempt.Outcome.RETRIED: "retry",
    Attempt.Outcome.CRASHED: "retry",
    Attempt.Outcome.LOST: "retry",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrailEvent:
    kind: str
    at: dt.datetime
    node: str = ""
    attempt: int = 0
    data: dict[str, Any] = dataclasses.field(default_factory=dict)


def events(run: Run) -> list[TrailEvent]:
    """Everything that has happened to the Run so far."""
    using = conf.get().DATABASE
    run.refresh_from_db()
    found = [
        TrailEvent(
            kind="submitted",
            at=run.submitted_at,
            data={"trigger": run.trigger, "run_at": run.run_at.isoformat()},
        )
    ]
    for attempt in Attempt.objects.using(using).filter(run_id=run.id).order_by("id"):
        found += _of_attempt(attempt)
    if run.status == State.RUNNING and run.started_at is not None:
        found.append(
            TrailEvent(kind="started", at=run.started_at, node=run.node, attempt=run.attempt)
        )
    for event in Event.objects.using(using).filter(run_id=run.id).order_by("id"):
        if event.kind == "cancelled" and event.node:
            continue  # its attempt says so already
        found.append(
            TrailEvent(
                kind=event.kind,
                at=event.at,
                node=event.node,
                attempt=event.attempt,
                data=event.data,
            )
        )
    if run.status == State.SKIPPED:
        found.append(
            TrailEvent(
                kind="skipped", at=run.finished_at or run.submitted_at, data={"reason": run.reason}
            )
        )
    order = {"submitted": 0, "started": 1, "heartbeat": 2}
    return sorted(found, key=lambda e: (e.at, e.attempt, order.get(e.kind, 3)))


def _of_attempt(attempt: Attempt) -> list[TrailEvent]:
    data: dict[str, Any] = {}
    if attempt.error:
        data["error"] = attempt.error
    if attempt.retry_at is not None:
        data["retry_at"] = attempt.retry_at.isoformat()
    kind = _KINDS.get(Attempt.Outcome(attempt.outcome), attempt.outcome)
    return [
        TrailEvent(
            kind="started", at=attempt.started_at, node=attempt.node, attempt=attempt.number
        ),
        TrailEvent(
            kind=kind,
            at=attempt.finished_at,
            node=attempt.node,
            attempt=attempt.number,
            data=data,
        ),
    ]


def follow(run: Run, timeout: float | None = None) -> Iterator[TrailEvent]:
    """Yield what happened and what happens, until the Run has ended or the time is over."""
    deadline = None if timeout is None else clock.monotonic() + timeout
    seen: set[tuple[str, dt.datetime, int]] = set()
    waiter = joins.Waiter()
    while True:
        found = events(run)
        for event in found:
            mark = (event.kind, event.at, event.attempt)
            if mark not in seen:
                seen.add(mark)
                yield event
        if run.is_finished:
            return
        left = None if deadline is None else deadline - clock.monotonic()
        if left is not None and left <= 0:
            return
        waiter.wait(1.0 if left is None else left)
