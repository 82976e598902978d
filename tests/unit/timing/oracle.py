"""The rule of daylight saving, written down as slowly and plainly as possible.

No stretches, no ranks, no search: every named time of every day is looked at, and the zone is
asked for each. The scheduler's own search is compared with this.
"""

from __future__ import annotations

import calendar
import datetime as dt
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_NAMES = {
    name: number
    for names, first in ((("sun", "mon", "tue", "wed", "thu", "fri", "sat"), 0),)
    for number, name in enumerate(names, first)
}


@dataclass(frozen=True)
class Plain:
    """An expression of lists, ranges and steps, read without any help."""

    minute: frozenset[int]
    hour: frozenset[int]
    day: frozenset[int]
    month: frozenset[int]
    weekday: frozenset[int]
    last_day: bool
    either: bool
    fixed: bool


@lru_cache(maxsize=64)
def read(text: str) -> Plain:
    minute, hour, day, month, weekday = text.lower().split()
    return Plain(
        minute=_values(minute, 0, 59),
        hour=_values(hour, 0, 23),
        day=frozenset() if day == "l" else _values(day, 1, 31),
        month=_values(month, 1, 12),
        weekday=frozenset(value % 7 for value in _values(weekday, 0, 6)),
        last_day=day == "l",
        either=not day.startswith("*") and not weekday.startswith("*"),
        fixed="*" not in hour and "/" not in hour,
    )


def slots(text: str, zone: str, start: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    """Every slot in [start, end), one by one. The bounds are whole minutes in UTC."""
    plain, info = read(text), zoneinfo.ZoneInfo(zone)
    if not plain.fixed:
        shown_at = _readings(zone, start, end)
        return [instant for instant, wall in shown_at if _names(plain, wall)]
    # A fixed time: each reading of each local day, whether the clock shows it or not.
    found = set()
    for wall in _named_times(plain, start - dt.timedelta(days=3), end + dt.timedelta(days=3)):
        instant = wall.replace(tzinfo=info, fold=0).astimezone(dt.UTC)
        shown = instant.astimezone(info).replace(tzinfo=None)
        if shown == wall:
            found.add(instant)
        elif exists(wall.date(), info):
            found.add(_first_valid_after(wall, info))
    return sorted(instant for instant in found if start <= instant < end)


@lru_cache(maxsize=2)
def _readings(
    zone: str, start: dt.datetime, end: dt.datetime
) -> list[tuple[dt.datetime, dt.datetime]]:
    """Each minute in [start, end) and what the clock shows then; many expressions ask the same."""
    info, found, instant = zoneinfo.ZoneInfo(zone), [], start
    while instant < end:
        found.append((instant, instant.astimezone(info).replace(tzinfo=None)))
        instant += dt.timedelta(minutes=1)
    return found


def _named_times(plain: Plain, start: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
    """What the expression names on each local day from one to the other, in order."""
    day, last = start.date(), end.date()
    while day <= last:
        for hour in sorted(plain.hour):
            for minute in sorted(plain.minute):
                wall = dt.datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                if _names(plain, wall):
                    yield wall
        day += dt.timedelta(days=1)


def exists(day: dt.date, info: zoneinfo.ZoneInfo) -> bool:
    """Does any instant around it fall on this local day?"""
    around = dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC) - dt.timedelta(hours=30)
    return any(
        (around + dt.timedelta(hours=hour)).astimezone(info).date() == day for hour in range(84)
    )


def _first_valid_after(wall: dt.datetime, info: zoneinfo.ZoneInfo) -> dt.datetime:
    while True:
        wall += dt.timedelta(minutes=1)
        instant = wall.replace(tzinfo=info, fold=0).astimezone(dt.UTC)
        if instant.astimezone(info).replace(tzinfo=None) == wall:
            return instant


def _names(plain: Plain, wall: dt.datetime) -> bool:
    if wall.minute not in plain.minute or wall.hour not in plain.hour:
        return False
    if wall.month not in plain.month:
        return False
    last = calendar.monthrange(wall.year, wall.month)[1]
    by_date = wall.day in plain.day or (plain.last_day and wall.day == last)
    by_weekday = wall.isoweekday() % 7 in plain.weekday
    return (by_date or by_weekday) if plain.either else (by_date and by_weekday)


def _values(text: str, low: int, high: int) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        base, _, step = part.partition("/")
        first, dash, last = base.partition("-")
        if base == "*":
            begin, end = low, high
        else:
            begin = _NAMES.get(first, -1) if not first.isdigit() else int(first)
            end = begin if not dash else _NAMES.get(last, -1) if not last.isdigit() else int(last)
            end = high if step and not dash else end
        values.update(range(begin, end + 1, int(step or 1)))
    return frozenset(values)
