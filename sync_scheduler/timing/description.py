"""A rule in words: "Every day at 06:00". The zone is shown beside it, not in it."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Iterable, Sequence

from sync_scheduler.timing import expression, interval, slots
from sync_scheduler.timing.cron import pattern_of
from sync_scheduler.timing.pattern import Pattern
from sync_scheduler.timing.rules import Recurrence

_MOST_TIMES = 8
_MOST_NUMBERS = 12
_UNITS = ((dt.timedelta(hours=1), "hour"), (dt.timedelta(minutes=1), "minute"))
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def describe(r: Recurrence) -> str:
    """The rule as a person would say it, on the 24 hour clock of its own zone."""
    if r.kind == "once":
        local = r.instant.astimezone(zoneinfo.ZoneInfo(r.timezone))
        weekday, month = _WEEKDAYS[local.weekday()][:3], _MONTHS[local.month - 1][:3]
        at = _clock(local.hour, local.minute, local.second)
        return f"Once on {weekday} {local.day} {month} {local.year} at {at}"
    until = "" if r.end_at is None else f", until {_moment(r.end_at, r.timezone)}"
    if r.kind == "cron":
        start = "" if r.start_at is None else f", starting {_moment(r.start_at, r.timezone)}"
        return f"{_cron(r.expression)}{start}{until}"
    start = ""
    if r.start_at is not None:
        first = slots.first_from(r, r.start_at) or r.start_at
        start = f" from {_moment(first, r.timezone)}"
    return f"Every {_period(interval.period_of(r.expression))}{start}{until}"


def _cron(text: str) -> str:
    pattern = pattern_of(text)
    days = _days(pattern)
    times = _times(pattern) if pattern.per_day <= _MOST_TIMES else None
    often = _how_often(pattern)
    # Whoever writes a fixed hour thinks of times; whoever repeats it thinks of a rhythm.
    if often is not None and (times is None or not pattern.hour_is_fixed):
        times = None
    elif times is None:
        return _by_fields(text)
    if days is None:
        return _by_fields(text)
    kind, named = days
    months = "" if len(pattern.months) == 12 else f" in {_span(_month_numbers(pattern), _MONTHS)}"
    if times is None:
        on = f" on {named}" if kind == "weekday" else f" {named}" if named else ""
        return f"{often}{on}{months}"
    if kind == "day":
        return f"Every day at {times}{months}"
    if kind == "weekday":
        return f"Every {named} at {times}{months}"
    if kind == "date" and len(pattern.months) == 1:
        dates = _join(str(day) for day in sorted(pattern.days))
        return f"Every year on {dates} {_MONTHS[min(pattern.months) - 1]} at {times}"
    return f"At {times} {named}{months}"


def _days(pattern: Pattern) -> tuple[str, str] | None:
    """Which days, and how that reads; None if nobody would say it."""
    any_date = len(pattern.days) == 31 and pattern.nearest is None
    any_weekday = len(pattern.weekdays) == 7
    if pattern.either_day:
        if any_date or any_weekday:
            return "day", ""
        dates = _dates(pattern)
        both = pattern.nth or "every " + _span(sorted(pattern.weekdays), _WEEKDAYS)
        weekdays = both if isinstance(both, str) else f"the {_nth(pattern)} of the month"
        return None if dates is None else ("mixed", f"{dates} and on {weekdays}")
    if any_date and any_weekday:
        return "day", ""
    if any_weekday:
        dates = _dates(pattern)
        is_plain = pattern.nearest is None and not pattern.last_day
        return None if dates is None else ("date" if is_plain else "mixed", dates)
    if not any_date:
        return None
    if pattern.nth:
        return "mixed", f"on the {_nth(pattern)} of the month"
    return "weekday", _span(sorted(pattern.weekdays), _WEEKDAYS)


def _dates(pattern: Pattern) -> str | None:
    if pattern.nearest is not None:
        nearest = "last weekday"
        if pattern.nearest < 31:
            nearest = f"weekday nearest to the {_ordinal(pattern.nearest)}"
        return f"on the {nearest} of the month"
    days = sorted(pattern.days)
    if len(days) > 2 and not pattern.last_day:
        step = days[1] - days[0]
        if step > 1 and days == list(range(1, 32, step)):
            return f"on every {_ordinal(step)} day of the month from the 1st"
    named = _rows([day - 1 for day in days], [_ordinal(day) for day in range(1, 32)])
    if pattern.last_day:
        named.append("last day")
    return f"on the {_join(named)} of the month" if len(named) <= _MOST_NUMBERS else None


def _nth(pattern: Pattern) -> str:
    named = sorted(pattern.nth, key=lambda pair: (pair[1] or 6, pair[0]))
    return _join(f"{_ordinal(n) if n else 'last'} {_WEEKDAYS[day]}" for day, n in named)


def _times(pattern: Pattern) -> str:
    return _join(
        _clock(hour, minute, second)
        for hour in pattern.hours
        for minute in pattern.minutes
        for second in pattern.seconds
    )


def _how_often(pattern: Pattern) -> str | None:
    """The rhythm within the day; None if there is none that a sentence could carry."""
    every_hours = _step(pattern.hours, 24)
    window = "" if every_hours is not None else _window(pattern)
    if window is None:
        return None
    minutes, seconds = _step(pattern.minutes, 60), _step(pattern.seconds, 60)
    is_dense = every_hours in (None, 1)
    if is_dense and minutes == 1 and seconds is not None:
        return f"Every {_many(seconds, 'second')}{window}"
    if len(pattern.seconds) > _MOST_NUMBERS:
        return None
    at_second = ""
    if pattern.seconds != (0,):
        at_second = f" at second {_join(str(second) for second in pattern.seconds)}"
    if is_dense and minutes is not None:
        return f"Every {_many(minutes, 'minute')}{window}{at_second}"
    # One hour is no rhythm of hours: `0 */24` is a time of day.
    if len(pattern.hours) == 1 or len(pattern.minutes) > _MOST_NUMBERS:
        return None
    at_minute = ""
    if pattern.minutes != (0,) or at_second:
        at_minute = f" at minute {_join(str(minute) for minute in pattern.minutes)}"
    joined = at_second.replace(" at ", " and ", 1)
    return f"Every {_many(every_hours or 1, 'hour')}{window}{at_minute}{joined}"


def _window(pattern: Pattern) -> str | None:
    """The part of the day in which the rhythm goes; None if it is in pieces."""
    first, last = pattern.hours[0], pattern.hours[-1]
    if len(pattern.hours) != last - first + 1:
        return None
    begin = _clock(first, pattern.minutes[0], pattern.seconds[0])
    return f" from {begin} to {_clock(last, pattern.minutes[-1], pattern.seconds[-1])}"


def _step(values: Sequence[int], size: int) -> int | None:
    """The step by which the values go round evenly, from 0 on."""
    if len(values) == 1:
        return None
    step = size // len(values)
    return step if tuple(values) == tuple(range(0, size, step)) and size % step == 0 else None


def _by_fields(text: str) -> str:
    """The fields as they were written, each with its name."""
    columns = text.split()
    named = [
        f"{field.name} {column.upper()}"
        for field, column in zip(expression.FIELDS, columns, strict=False)
        if column not in ("*", "?")
    ]
    if len(columns) == len(expression.FIELDS) and columns[-1] == "*":
        named.insert(0, "every second")
    elif columns[0] == "*":
        named.insert(0, "every minute")
    return f"At {', '.join(named)}"


def _period(period: dt.timedelta) -> str:
    # A day of 24 hours is not a day of the calendar, which may have 23.
    if period > dt.timedelta(days=1) and not period % dt.timedelta(days=1):
        return _many(period.days, "day")
    for unit, name in _UNITS:
        if not period % unit:
            return _many(period // unit, name)
    seconds = interval.text_of(period)
    return "second" if seconds == "1" else f"{seconds} seconds"


def _moment(instant: dt.datetime, zone: str) -> str:
    local = instant.astimezone(zoneinfo.ZoneInfo(zone))
    return f"{local:%Y-%m-%d} {_clock(local.hour, local.minute, local.second)}"


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"


def _many(number: int, noun: str) -> str:
    return noun if number == 1 else f"{number} {noun}s"


def _ordinal(number: int) -> str:
    if number in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _month_numbers(pattern: Pattern) -> list[int]:
    return [month - 1 for month in sorted(pattern.months)]


def _span(numbers: Sequence[int], names: Sequence[str]) -> str:
    return _join(_rows(numbers, names))


def _rows(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """The names of the numbers; three or more in a row become "first to last"."""
    parts: list[str] = []
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    for row in rows:
        if len(row) > 2:
            parts.append(f"{names[row[0]]} to {names[row[-1]]}")
        else:
            parts.extend(names[number] for number in row)
    return parts


def _join(parts: Iterable[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
