"""Schedules with a known number of slots, and what has become of all of them."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
from collections import Counter

from sync_scheduler import cron
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.locking import database_now
from tests.testapp import jobs
from tests.testapp.models import Effect

_SECOND = dt.timedelta(seconds=1)
_MINUTE = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """`lost`: slots without a Run; `duplicated`: Runs or effects beyond one per slot."""

    lost: int
    duplicated: int
    effects: int
    ended: int
    lags: tuple[float, ...]

    def lag(self, share: float) -> float:
        """How late the slots were dispatched, at this share of them (0.99), in seconds."""
        ordered = sorted(self.lags)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slots:
    """`schedules` times `count` slots from `start` on, one per second or per minute."""

    schedules: int
    count: int
    start: dt.datetime

    @property
    def total(self) -> int:
        return self.schedules * self.count

    def outcome(self) -> Outcome:
        rows = list(
            Run.objects.filter(trigger="slot")
            .order_by()
            .values_list("schedule_name", "slot", "submitted_at", "status")
        )
        runs = Counter((name, slot) for name, slot, _, _ in rows)
        effects = Counter(Effect.objects.order_by().values_list("name", flat=True))
        return Outcome(
            lost=self.total - len(runs),
            duplicated=sum(n - 1 for n in runs.values()) + sum(n - 1 for n in effects.values()),
            effects=sum(effects.values()),
            ended=sum(1 for *_, status in rows if status == "completed"),
            lags=tuple((at - slot).total_seconds() for _, slot, at, _ in rows if slot is not None),
        )

    def are_done(self) -> bool:
        """Whether every slot has its completed Run."""
        return Run.objects.filter(trigger="slot", status="completed").count() >= self.total


def every_second(schedules: int, count: int, in_seconds: float = 2.0) -> Slots:
    """Slots that come, one per second, each with one effect."""
    start = (database_now() + dt.timedelta(seconds=in_seconds)).replace(microsecond=0) + _SECOND
    _register(schedules, "* * * * * *", start, start + (count - 1) * _SECOND)
    return Slots(schedules=schedules, count=count, start=start)


def missed(schedules: int, count: int) -> Slots:
    """Slots that are past already, one per minute, all to be caught up with."""
    start = database_now().replace(second=0, microsecond=0) - (count + 1) * _MINUTE
    _register(schedules, "* * * * *", start, start + (count - 1) * _MINUTE)
    return Slots(schedules=schedules, count=count, start=start)


def _register(schedules: int, expression: str, start: dt.datetime, end: dt.datetime) -> None:
    """One by the public way, the others as copies: registering a hundred takes seconds.

    All of them begin with `start`, even if it is past by now.
    """
    template = Schedule.objects.register(
        "slots",
        job=jobs.slot_effect,
        rule=cron(expression, tz="UTC", start_at=start, end_at=end),
        misfire="catch_up_all",
        max_catch_up=1000,
        overlap="concurrent",
        input={"name": "slots"},
        enabled=False,
    ).schedule
    names = [f"slots-{number:03d}" for number in range(schedules)]
    copies = []
    for name in names:
        one = copy.copy(template)
        one.pk, one.name, one.input = None, name, {"name": name}
        one.enabled, one.next_run_at, one.version = True, start, 1
        copies.append(one)
    Schedule.objects.bulk_create(copies)
    template.delete()
