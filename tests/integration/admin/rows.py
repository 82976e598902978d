"""Rows as the pages find them: schedules, runs, nodes, terms and dead letters."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sync_scheduler import clock
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import Attempt, DeadLetter, Leader, Node, Run, Schedule, Term
from sync_scheduler.timing.rules import Rule, cron

SECOND = dt.timedelta(seconds=1)
HOUR = dt.timedelta(hours=1)


def schedule(
    name: str = "invoices",
    rule: Rule | None = None,
    job: str = "tests.add",
    age: dt.timedelta = dt.timedelta(days=3),
    **options: Any,
) -> Schedule:
    """One that has existed for a while."""
    options.setdefault("input", {"a": 1, "b": 2} if job == "tests.add" else {})
    made = Schedule.objects.add(
        name, job=job, rule=rule or cron("0 2 * * *", tz="Europe/Berlin"), **options
    )
    born = clock.now() - age
    Schedule.objects.filter(id=made.id).update(created_at=born, updated_at=born)
    made.refresh_from_db()
    return made


def run(of: Schedule | None = None, status: str = State.COMPLETED, **values: Any) -> Run:
    now = clock.now()
    ended = status not in {State.SUBMITTED, State.RUNNING}
    started = status not in {State.SUBMITTED, State.SKIPPED}
    given: dict[str, Any] = {
        "job": of.job if of is not None else "tests.add",
        "schedule": of,
        "schedule_name": of.name if of is not None else "",
        "trigger": Trigger.SLOT if of is not None else Trigger.SUBMIT,
        "status": status,
        "attempt": 1 if started else 0,
        "run_at": now - 10 * SECOND,
        "submitted_at": now - 10 * SECOND,
        "started_at": now - 9 * SECOND if started else None,
        "finished_at": now - 8 * SECOND if ended else None,
        "node": "node-1" if started else "",
        "input": {"a": 1, "b": 2},
    }
    return Run.objects.create(**{**given, **values})


def failed(
    of: Schedule | None = None,
    error: str = "ValueError: no such order 17",
    traceback: str = "",
    **values: Any,
) -> Run:
    """A failed Run with its attempt and its dead letter."""
    made = run(of, State.FAILED, error=error, **values)
    Attempt.objects.create(
        run=made,
        number=1,
        node="node-1",
        started_at=made.started_at or made.submitted_at,
        finished_at=made.finished_at or made.submitted_at,
        outcome=Attempt.Outcome.FAILED,
        error=error,
        traceback=traceback or f"Traceback (most recent call last):\n{error}\n",
    )
    letter(made)
    return made


def letter(of: Run, **values: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "kind": DeadLetter.Kind.RUN,
        "run": of,
        "schedule": of.schedule,
        "schedule_name": of.schedule_name,
        "job": of.job,
        "slot": of.slot,
        "reason": of.error[:500],
        "error": of.error,
        "created_at": of.finished_at or clock.now(),
    }
    return DeadLetter.objects.create(**{**given, **values})


def node(name: str = "node-1", silent: dt.timedelta = dt.timedelta(), **values: Any) -> Node:
    now = clock.now()
    given: dict[str, Any] = {
        "name": name,
        "host": "web1",
        "pid": 4711,
        "roles": "dispatch+work",
        "version": "0.1.0",
        "queues": [],
        "jobs": ["tests.add", "tests.noop"],
        "slots": 8,
        "started_at": now - HOUR - silent,
        "heartbeat_at": now - silent,
    }
    return Node.objects.create(**{**given, **values})


def leader(holder: str = "node-1", expires_in: dt.timedelta = HOUR, epoch: int = 1) -> None:
    now = clock.now()
    since = now - 2 * HOUR
    Leader.objects.update_or_create(
        namespace="default",
        defaults={
            "epoch": epoch,
            "holder": holder,
            "since": since,
            "expires_at": now + expires_in,
        },
    )
    Term.objects.create(epoch=epoch, holder=holder, started_at=since)
