"""Which readings of a wall clock a cron expression names, before any time zone comes in.

The times of day of an expression are the same on every day it names, so that a reading is
found by its rank: how many named times come before it. Searching and counting are then
arithmetic; nothing walks from minute to minute.
"""

from __future__ import annotations

import calendar
import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sync_scheduler.timing.zones import DAY

# 29 February on a given weekday can be 40 years away (over a century without leap year).
_FARTHEST_YEARS = 50
_FIRST_ORDINAL = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """The sets of an expression; `hour_is_fixed` decides how a change of the clock is met.

    `nth` holds (weekday, n) with Monday as 0 and n as 1 to 5, or 0 for the last one.
    `either_day` is cron's rule that two restricted day fields widen each other.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    last_day: bool
    nearest: int | None
    months: frozenset[int]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    either_day: bool
    every_day: bool
    hour_is_fixed: bool

    @property
    def per_day(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def names(self, reading: int) -> bool:
        return self.first_from(reading, reading + 1) is not None

    def first_from(self, reading: int, before: int | None = None) -> int | None:
        """The first named reading that is not earlier (and earlier than `before`)."""
        day, time = divmod(reading, DAY)
        found = self._day_from(day)
        if found == day:
            rank = self._rank(time)
            if rank < self.per_day:
                first = day * DAY + self._time(rank)
                return first if before is None or first < before else None
            found = self._day_from(day + 1)
        if found is None:
            return None
        first = found * DAY + self._time(0)
        return first if before is None or first < before else None

    def last_until(self, reading: int) -> int | None:
        """The last named reading that is not later."""
        day, time = divmod(reading, DAY)
        found = self._day_until(day)
        if found == day:
            rank = self._rank(time + 1)
            if rank > 0:
                return day * DAY + self._time(rank - 1)
            found = self._day_until(day - 1)
        return None if found is None else found * DAY + self._time(self.per_day - 1)

    def count(self, start: int, end: int) -> int:
        """How many named readings lie from `start` to before `end`."""
        if end <= start:
            return 0
        return self._count_before(end, start // DAY) - self._count_before(start, start // DAY)

    def _count_before(self, reading: int, from_day: int) -> int:
        day, time = divmod(reading, DAY)
        whole = self._days_between(from_day, day) * self.per_day
        return whole + (self._rank(time) if self._day_from(day) == day else 0)

    def _rank(self, time: int) -> int:
        """How many named times of day are earlier."""
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        at = bisect_left(self.hours, hour)
        rank = at * len(self.minutes)
        if at < len(self.hours) and self.hours[at] == hour:
            at = bisect_left(self.minutes, minute)
            rank += at
            if at < len(self.minutes) and self.minutes[at] == minute:
                return rank * len(self.seconds) + bisect_left(self.seconds, second)
        return rank * len(self.seconds)

    def _time(self, rank: int) -> int:
        """The named time of day of this rank."""
        rest, second = divmod(rank, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def _day_from(self, day: int) -> int | None:
        if self.every_day:
            return day
        for first, days in self._months_from(day):
            at = bisect_left(days, day - first)
            if at < len(days):
                return first + days[at]
        return None

    def _day_until(self, day: int) -> int | None:
        if self.every_day:
            return day
        for first, days in self._months_until(day):
            at = bisect_right(days, day - first)
            if at > 0:
                return first + days[at - 1]
        return None

    def _days_between(self, start: int, end: int) -> int:
        """How many named days lie from `start` to before `end`."""
        if self.every_day:
            return end - start
        total = 0
        for first, days in self._months_from(start, until=end):
            total += bisect_left(days, end - first) - bisect_left(days, start - first)
        return total

    def _months_from(
        self, day: int, until: int | None = None
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        date = _date_of(day)
        year, month = date.year, date.month
        last_year = min(year + _FARTHEST_YEARS, 9998) if until is None else _date_of(until).year
        while year <= last_year:
            if month in self.months:
                first, weekday, length = _month(year, month)
                yield first, _days_of(self, weekday, length)
            month += 1
            if month == 13:
                year, month = year + 1, 1

    def _months_until(self, day: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        date = _date_of(day)
        year, month = date.year, date.month
        first_year = max(year - _FARTHEST_YEARS, 2)
        while year >= first_year:
            if month in self.months:
                first, weekday, length = _month(year, month)
                yield first, _days_of(self, weekday, length)
            month -= 1
            if month == 0:
                year, month = year - 1, 12

    def names_day(self, day: int, weekday: int, first_weekday: int, length: int) -> bool:
        by_date = (
            day == _nearest_weekday(self.nearest, first_weekday, length)
            if self.nearest is not None
            else day in self.days or (self.last_day and day == length)
        )
        by_weekday = (
            weekday in self.weekdays
            or (weekday, (day + 6) // 7) in self.nth
            or ((weekday, 0) in self.nth and day + 7 > length)
        )
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)


@lru_cache(maxsize=16_384)
def _days_of(pattern: Pattern, first_weekday: int, length: int) -> tuple[int, ...]:
    """Named days of a month, from 0. All Januaries that begin alike are alike."""
    return tuple(
        day - 1
        for day in range(1, length + 1)
        if pattern.names_day(day, (first_weekday + day - 1) % 7, first_weekday, length)
    )


@lru_cache(maxsize=4096)
def _month(year: int, month: int) -> tuple[int, int, int]:
    weekday, length = calendar.monthrange(year, month)
    return dt.date(year, month, 1).toordinal() - _FIRST_ORDINAL, weekday, length


def _date_of(day: int) -> dt.date:
    ordinal = min(max(day + _FIRST_ORDINAL, 1), dt.date.max.toordinal())
    return dt.date.fromordinal(ordinal)


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """The Monday to Friday next to a day, without leaving its month."""
    day = min(day, length)
    weekday = (first_weekday + day - 1) % 7
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < length else day - 2
    return day
