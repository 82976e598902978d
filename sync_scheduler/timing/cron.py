"""Cron expressions as instants: what an expression names, met with a zone's clock.

Daylight saving, and every other change of a zone's clock:

- A fixed hour (numbers, lists and ranges: `30 2 * * *`, `0 9-17 * * *`) means the time on the
  wall, once on every local day that exists. A time that the clock jumps over is met at the
  first valid instant after the jump; a time that comes twice is met the first time only. All
  times of one jump meet at that one instant: `0,30 2 * * *` runs once, at 03:00.
- A repeating hour (`*`, or a step as in `*/2` or `8-20/4`) means every so often: each real
  instant at which the clock shows a named time. `*/30 * * * *` runs every real half hour
  through both changes. All 24 hours are a repeating hour however they are written.
- A local day that does not exist has no run, and gives none to its neighbours.

Two restricted day fields widen each other, as in cron: `0 0 1 * mon` is each first of the
month and each Monday. A field that begins with `*` or is `?` does not count as restricted.

croniter reads the expression. It does not search: its own search fires a fixed time twice
when the clock goes back, and takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from croniter import CroniterError, croniter

from sync_scheduler.errors import InvalidRule
from sync_scheduler.timing import expression
from sync_scheduler.timing.pattern import Pattern
from sync_scheduler.timing.zones import DAY, Stretch, stretch_at

# Any instant will do, as long as it is always the same one: the calendar repeats.
_SOME_READING = 0


@lru_cache(maxsize=2048)
def pattern_of(text: str) -> Pattern:
    """What the expression names; InvalidRule if it cannot be read or names nothing."""
    columns = expression.read(text)
    try:
        fields, nth = croniter.expand(
            f"{columns.minute} {columns.hour} {columns.day_of_month} "
            f"{columns.month} {columns.day_of_week}"
        )
        # As a minute of its own: with six fields croniter reads some weekdays differently.
        (second, *_), _ = croniter.expand(f"{columns.second} * * * *")
    except (CroniterError, TypeError, KeyError) as error:
        raise InvalidRule(f"cron expression {text!r} cannot be read: {error}") from None
    days, weekdays = columns.day_of_month, columns.day_of_week
    hours = _numbers(fields[1], expression.HOUR)
    months = frozenset(_numbers(fields[3], expression.MONTH))
    any_date, any_weekday = _is_all(fields[2]), _is_all(fields[4])
    pattern = Pattern(
        seconds=_numbers(second, expression.SECOND),
        minutes=_numbers(fields[0], expression.MINUTE),
        hours=hours,
        days=frozenset(_numbers(fields[2], expression.DAY_OF_MONTH)),
        last_day="l" in fields[2],
        nearest=columns.nearest,
        months=months,
        weekdays=frozenset() if nth else _weekdays(fields[4]),
        nth=frozenset(
            ((int(day) + 6) % 7, 0 if str(which) == "l" else int(which))
            for day, which_ones in nth.items()
            for which in which_ones
        ),
        either_day=not days.startswith("*") and not weekdays.startswith("*"),
        every_day=any_date and any_weekday and len(months) == 12 and columns.nearest is None,
        hour_is_fixed=not columns.hour_repeats and len(hours) < 24,
    )
    if pattern.first_from(_SOME_READING) is None:
        raise InvalidRule(
            f"cron expression {text!r} never fires: no such day of month exists in its months."
        )
    return pattern


@lru_cache(maxsize=65_536)
def next_slot(text: str, zone: str, after: int) -> int | None:
    """The first slot later than `after`, remembered: many schedules share a rule."""
    return _next(pattern_of(text), zone, after)


def slots_from(text: str, zone: str, after: int) -> Iterator[int]:
    """All slots later than `after`, oldest first, without end."""
    pattern = pattern_of(text)
    found = _next(pattern, zone, after)
    while found is not None:
        yield found
        found = _next(pattern, zone, found)


def slots_back(text: str, zone: str, after: int, until: int) -> Iterator[int]:
    """The slots later than `after` and not later than `until`, newest first."""
    pattern = pattern_of(text)
    found = _previous(pattern, zone, after, until)
    while found is not None:
        yield found
        found = _previous(pattern, zone, after, found - 1)


def count_slots(text: str, zone: str, after: int, until: int) -> int:
    """How many slots are later than `after` and not later than `until`."""
    pattern = pattern_of(text)
    total, instant = 0, after + 1
    while instant <= until:
        stretch = stretch_at(zone, instant)
        end = min(stretch.end, until + 1)
        total += pattern.count(
            max(instant + stretch.offset, _first_reading(pattern, stretch)), end + stretch.offset
        )
        if instant == stretch.start and catches_up(pattern, stretch):
            # The first time after the jump may be named itself; it is still one slot.
            total += 0 if pattern.names(stretch.start + stretch.offset) else 1
        instant = end
    return total


def catches_up(pattern: Pattern, stretch: Stretch) -> bool:
    """Did the clock jump over a named time, on a day that exists, as the stretch began?"""
    if not (pattern.hour_is_fixed and stretch.opens_with_gap):
        return False
    gap_to = stretch.start + stretch.offset
    reading = pattern.first_from(stretch.gap_from, gap_to)
    while reading is not None:
        day = reading - reading % DAY
        if day < stretch.gap_from or day + DAY > gap_to:
            return True
        reading = pattern.first_from(day + DAY, gap_to)
    return False


def _next(pattern: Pattern, zone: str, after: int) -> int | None:
    instant = after + 1
    while True:
        stretch = stretch_at(zone, instant)
        if instant == stretch.start and catches_up(pattern, stretch):
            return instant
        first = max(instant + stretch.offset, _first_reading(pattern, stretch))
        reading = pattern.first_from(first, stretch.end + stretch.offset)
        if reading is not None:
            return reading - stretch.offset
        # No offset is as long as a day, so that nothing can be due a day before the reading.
        reading = pattern.first_from(stretch.end - DAY)
        if reading is None:
            return None
        instant = max(stretch.end, reading - DAY)


def _previous(pattern: Pattern, zone: str, after: int, until: int) -> int | None:
    instant = until
    while instant > after:
        stretch = stretch_at(zone, instant)
        reading = pattern.last_until(instant + stretch.offset)
        if reading is not None and reading >= _first_reading(pattern, stretch):
            found = reading - stretch.offset
            return found if found > after else None
        if catches_up(pattern, stretch):
            return stretch.start if stretch.start > after else None
        reading = pattern.last_until(stretch.start - 1 + DAY)
        if reading is None:
            return None
        instant = min(stretch.start - 1, reading + DAY)
    return None


def _first_reading(pattern: Pattern, stretch: Stretch) -> int:
    """From which reading on the stretch counts: a fixed time does not count when repeated."""
    return stretch.first_new if pattern.hour_is_fixed else stretch.start + stretch.offset


def _is_all(values: Sequence[int | str]) -> bool:
    return "*" in values


def _numbers(values: Sequence[int | str], field: expression.Field) -> tuple[int, ...]:
    if _is_all(values):
        return tuple(range(field.low, field.high + 1))
    return tuple(sorted({int(value) for value in values if value != "l"}))


def _weekdays(values: Sequence[int | str]) -> frozenset[int]:
    """With Monday as 0, as the calendar module counts."""
    return frozenset((number + 6) % 7 for number in _numbers(values, expression.DAY_OF_WEEK))
