"""Rows as the scheduler would have left them, for those who only read."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sync_scheduler import clock, conf
from sync_scheduler.models import Attempt, Event, Leader, Node, Run, Schedule, Step
from sync_scheduler.models.identity import uuid7
from sync_scheduler.store.locking import database_now
from sync_scheduler.timing.rules import Rule, every

SECOND = dt.timedelta(seconds=1)
HOUR = dt.timedelta(hours=1)


def a_run(job: str = "tests.noop", status: str = "submitted", **values: Any) -> Run:
    now = clock.now()
    times: dict[str, Any] = {"run_at": now, "submitted_at": now}
    if status != "submitted":
        times["started_at"] = now
    if status not in {"submitted", "running"}:
        times["finished_at"] = now
    return Run.objects.create(job=job, status=status, **{**times, **values})


def many_runs(number: int, **values: Any) -> list[Run]:
    now = clock.now()
    times = {"run_at": now, "submitted_at": now}
    return Run.objects.bulk_create(
        [Run(id=uuid7(), **{"job": "tests.noop", **times, **values}) for _ in range(number)]
    )


def an_attempt(run: Run, outcome: str = "failed", **values: Any) -> Attempt:
    now = clock.now()
    given = {"number": 1, "node": "n1", "started_at": now, "finished_at": now, "outcome": outcome}
    return Attempt.objects.create(run=run, **{**given, **values})


def a_step(run: Run, name: str, result: Any) -> Step:
    return Step.objects.create(
        run=run, name=name, result=result, attempt=1, finished_at=clock.now()
    )


def an_event(run: Run, kind: str, **data: Any) -> Event:
    return Event.objects.create(run=run, at=clock.now(), kind=kind, attempt=1, data=data)


def a_schedule(
    name: str = "invoices-daily", job: str = "tests.noop", rule: Rule | None = None, **options: Any
) -> Schedule:
    registered = Schedule.objects.register(name, job=job, rule=rule or every(hours=1), **options)
    return registered.schedule


def a_node(name: str = "n1", *, silent_seconds: float = 0.0, **values: Any) -> Node:
    now = database_now()
    given = {
        "host": "h",
        "pid": 1,
        "roles": "dispatch+work",
        "started_at": now - HOUR,
        "heartbeat_at": now - dt.timedelta(seconds=silent_seconds),
    }
    return Node.objects.create(name=name, **{**given, **values})


def a_leader(node: str = "n1", *, epoch: int = 7, lease_seconds: float = 60.0) -> None:
    now = database_now()
    Leader.objects.update_or_create(
        namespace=conf.get().NAMESPACE,
        defaults={
            "epoch": epoch,
            "holder": node,
            "since": now - HOUR,
            "expires_at": now + dt.timedelta(seconds=lease_seconds),
        },
    )
