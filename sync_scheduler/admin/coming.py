"""What comes due: every occurrence within an hour, and how many per quarter of an hour in a day."""

from __future__ import annotations

import dataclasses
import datetime as dt
import heapq
from collections.abc import Iterable

from django.db.models import Q

from sync_scheduler.errors import InvalidRule
from sync_scheduler.models import Schedule
from sync_scheduler.timing import slots
from sync_scheduler.timing.rules import Recurrence

_MOST_SCHEDULES = 500
_NAMED = 5
# What a rule is made of, and whose it is.
_RULE = (
    *("name", "kind", "expression", "timezone", "anchor_at", "start_at", "end_at"),
    *("paused_at", "paused_until"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A schedule's occurrences within the time looked at, folded into one line."""

    schedule: Schedule
    first: dt.datetime
    last: dt.datetime
    count: int


def active(now: dt.datetime) -> Q:
    return Q(enabled=True) & (Q(paused_at__isnull=True) | Q(paused_until__lte=now))


def within(now: dt.datetime, span: dt.timedelta) -> list[Coming]:
    """By time, the soonest first; along the index that the dispatcher uses."""
    end = now + span
    due = Schedule.objects.filter(active(now), next_run_at__lte=end).order_by("next_run_at", "id")
    found = []
    for schedule in due[:_MOST_SCHEDULES]:
        first = schedule.next_run_at
        if first is None:
            continue
        try:
            rule = schedule.recurrence
            count = slots.count(rule, max(first, now), end) + 1
            last = (slots.latest(rule, max(first, now), end, 1) or [first])[-1]
        except InvalidRule:
            count, last = 1, first
        found.append(Coming(schedule=schedule, first=first, last=last, count=count))
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Slots that fall into one stretch of time, and the schedules with the most of them."""

    start: dt.datetime
    count: int
    names: tuple[tuple[str, int], ...]


def load(now: dt.datetime, cells: int, step: dt.timedelta) -> list[Cell]:
    """How many slots fall into each stretch from the last full one on.

    Thousands of schedules share a few hundred rules; the slots of each rule are computed once.
    """
    start = _floor(now, step)
    counts = [0] * cells
    names: list[list[tuple[int, str]]] = [[] for _ in range(cells)]
    for (rule, after), sharing in _by_rule(now).items():
        shown = heapq.nlargest(_NAMED, sharing)
        for index, number in _of(rule, start, after, cells, step):
            counts[index] += number * len(sharing)
            names[index] += [(number, name) for name in shown]
    return [
        Cell(
            start=start + i * step,
            count=counts[i],
            names=tuple((name, number) for number, name in heapq.nlargest(_NAMED, names[i])),
        )
        for i in range(cells)
    ]


def _by_rule(now: dt.datetime) -> dict[tuple[Recurrence, dt.datetime], list[str]]:
    """Names of schedules by their rule and by when it takes effect; broken rules are left out."""
    found: dict[tuple[Recurrence, dt.datetime], list[str]] = {}
    planned = Schedule.objects.filter(enabled=True, next_run_at__isnull=False)
    for schedule in planned.only(*_RULE).iterator():
        after = now
        if schedule.paused_at is not None:
            if schedule.paused_until is None:
                continue
            after = max(after, schedule.paused_until)
        try:
            found.setdefault((schedule.recurrence, after), []).append(schedule.name)
        except InvalidRule:
            continue
    return found


def _of(
    rule: Recurrence, start: dt.datetime, after: dt.datetime, cells: int, step: dt.timedelta
) -> Iterable[tuple[int, int]]:
    """(index, how many) for the stretches in which the rule has slots."""
    end = start + cells * step
    if after >= end:
        return
    few = slots.upcoming(rule, after, end, cells)
    if len(few) < cells:
        by_cell: dict[int, int] = {}
        for slot in few:
            index = min(int((slot - start) / step), cells - 1)
            by_cell[index] = by_cell.get(index, 0) + 1
        yield from by_cell.items()
        return
    for index in range(cells):
        lower = max(after, start + index * step)
        number = slots.count(rule, lower, start + (index + 1) * step)
        if number:
            yield index, number


def _floor(instant: dt.datetime, step: dt.timedelta) -> dt.datetime:
    seconds = int(instant.timestamp()) // int(step.total_seconds()) * int(step.total_seconds())
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
