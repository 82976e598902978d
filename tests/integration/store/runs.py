"""Runs in every state, and the verbs that move them, for the tests of the store."""

from __future__ import annotations

from typing import Any

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Run
from sync_scheduler.store import claims, outcomes

JOB = "tests.noop"


def make(status: str = "submitted", **values: Any) -> Run:
    now = clock.now()
    defaults: dict[str, Any] = {"job": JOB, "run_at": now, "submitted_at": now}
    if status != "submitted":
        defaults |= {"node": "node-a", "attempt": 1, "token": 1, "started_at": now}
    if status not in {"submitted", "running"}:
        defaults["finished_at"] = now
    return Run.objects.create(status=status, **defaults | values)


def claim_of(run: Run, token: int | None = None) -> claims.Claim:
    """The claim that an attempt at this Run would hold, whatever the row says now."""
    row = Run.objects.filter(id=run.id).values_list(*claims.FACTS).get()
    values = dict(zip(claims.FACTS, row, strict=True))
    values["started_at"] = values["started_at"] or clock.now()
    if token is not None:
        values["token"] = token
    return claims.Claim(**values)


def ending(claim: claims.Claim, status: State, **values: Any) -> outcomes.Ending:
    words = {
        State.COMPLETED: Attempt.Outcome.COMPLETED,
        State.FAILED: Attempt.Outcome.FAILED,
        State.CANCELLED: Attempt.Outcome.CANCELLED,
        State.TIMED_OUT: Attempt.Outcome.TIMED_OUT,
        State.SUBMITTED: Attempt.Outcome.RETRIED,
    }
    now = clock.now()
    defaults: dict[str, Any] = {
        "node": "node-a",
        "outcome": words[status],
        "started_at": claim.started_at,
        "finished_at": now,
    }
    return outcomes.Ending(claim=claim, status=status, **defaults | values)


def record(claim: claims.Claim, status: State, **values: Any) -> outcomes.Recorded:
    return outcomes.record([ending(claim, status, **values)])
