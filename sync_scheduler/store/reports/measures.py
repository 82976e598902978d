"""Numbers for monitoring. Names come from the registry only, so that their number is bounded."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from django.db.models import Count, Min, Q

from sync_scheduler import clock
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.locking import database_now
from sync_scheduler.store.reports import status, troubles

# What is not in the registry here is counted under this name.
OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    epoch: int
    is_led: bool
    nodes: int
    ended: Mapping[tuple[str, str], int]
    running: Mapping[str, int]
    waiting: Mapping[str, int]
    oldest_waiting_seconds: float
    schedules: Mapping[str, int]
    open_letters: int


def measure() -> Measures:
    """Everything, in a fixed number of queries."""
    now = database_now()
    leader = status.leader(now)
    return Measures(
        epoch=leader["epoch"] if leader else 0,
        is_led=leader is not None,
        nodes=len(status.alive_nodes(now)),
        ended=_ended(now - status.DAY),
        running=_running(),
        waiting=_waiting(now),
        oldest_waiting_seconds=_oldest_waiting(now),
        schedules=_schedules(now),
        open_letters=troubles.open_letters(),
    )


def _job(name: str) -> str:
    job = registry.find(name)
    return OTHER if job is None else job.name


def _ended(start: dt.datetime) -> dict[tuple[str, str], int]:
    rows = (
        Run.objects.filter(finished_at__gte=start)
        .order_by()
        .values_list("job", "status")
        .annotate(number=Count("*"))
    )
    found: dict[tuple[str, str], int] = {}
    for name, state, number in rows:
        key = (_job(name), state)
        found[key] = found.get(key, 0) + number
    return found


def _running() -> dict[str, int]:
    rows = Run.objects.filter(status=State.RUNNING).order_by().values_list("job")
    found: dict[str, int] = {job.name: 0 for job in registry.all_jobs()}
    for name, number in rows.annotate(number=Count("id")):
        found[_job(name)] = found.get(_job(name), 0) + number
    return found


def _waiting(now: dt.datetime) -> dict[str, int]:
    found = {job.policy.queue: 0 for job in registry.all_jobs()} or {"default": 0}
    for queue, number in status.waiting(now).items():
        name = queue if queue in found else OTHER
        found[name] = found.get(name, 0) + number
    return found


def _oldest_waiting(now: dt.datetime) -> float:
    due = Run.objects.filter(
        status=State.SUBMITTED, waiting_for__isnull=True, run_at__lte=max(now, clock.now())
    )
    oldest = due.aggregate(at=Min("run_at"))["at"]
    return 0.0 if oldest is None else max((now - oldest).total_seconds(), 0.0)


def _schedules(now: dt.datetime) -> dict[str, int]:
    """By state; a schedule may be in several of them."""
    late = now - dt.timedelta(seconds=60)
    enabled = Q(enabled=True)
    counts = Schedule.objects.aggregate(
        number_enabled=Count("id", filter=enabled),
        number_disabled=Count("id", filter=~enabled),
        number_paused=Count("id", filter=enabled & Q(paused_at__isnull=False)),
        number_error=Count("id", filter=enabled & ~Q(error="")),
        number_overdue=Count(
            "id", filter=enabled & Q(paused_at__isnull=True, next_run_at__lt=late)
        ),
    )
    return {name.removeprefix("number_"): int(number) for name, number in counts.items()}
