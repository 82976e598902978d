"""Changes of a zone's clock, and what each of them does to a schedule, in a sentence."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from dataclasses import dataclass

from sync_scheduler.timing.cron import catches_up, pattern_of
from sync_scheduler.timing.expression import MONTHS, WEEKDAYS
from sync_scheduler.timing.pattern import Pattern
from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.timing.zones import DAY, instant_of, seconds_of, stretch_at

# Every rule in force repeats within a year; whoever has not changed for three will not.
_SEARCHED = 3 * 366 * DAY
_NAMED_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """The clock of `zone` goes from `local_before` to `local_after` (both naive) at `instant`."""

    zone: str
    instant: dt.datetime
    local_before: dt.datetime
    local_after: dt.datetime
    name_before: str
    name_after: str

    @property
    def goes_forward(self) -> bool:
        return self.local_after > self.local_before


def dst_changes(zone: str, after: dt.datetime, n: int = 2) -> list[ClockChange]:
    """The next `n` changes of the zone's clock after an instant; fewer when none are known."""
    found: list[ClockChange] = []
    instant = seconds_of(after)
    end = instant + _SEARCHED
    while len(found) < n and instant < end:
        before = stretch_at(zone, instant)
        instant = before.end
        following = stretch_at(zone, instant)
        if following.offset != before.offset:
            found.append(_change(zone, instant, before.offset, following.offset))
    return found


def explain_change(r: Recurrence, change: ClockChange) -> str | None:
    """What the change does to the schedule; None when it does nothing a person would notice."""
    if r.kind != "cron" or _is_out_of_bounds(r, change.instant):
        return None
    pattern = pattern_of(r.expression)
    low, high = sorted((_reading(change.local_before), _reading(change.local_after)))
    first = pattern.first_from(low, high)
    if first is None:
        return None
    if not pattern.hour_is_fixed:
        return _explain_repeating(pattern, change, first, high)
    if change.goes_forward:
        return _explain_gap(pattern, change, first, high)
    times = _times(pattern, first, high)
    verb = "happens" if pattern.count(first, high) == 1 else "happen"
    return (
        f"{_day(first)}: {times} {verb} twice in {change.zone}, "
        f"{'runs' if verb == 'happens' else 'run'} the first time only ({change.name_before})"
    )


def _explain_repeating(pattern: Pattern, change: ClockChange, first: int, high: int) -> str:
    if not _looks_alike(pattern, change):
        times, single = _times(pattern, first, high), pattern.count(first, high) == 1
        if change.goes_forward:
            what = "does not exist in {}, no run then" if single else "do not exist in {}, no runs"
        else:
            what = "happens twice in {}, runs twice" if single else "happen twice in {}, run twice"
        return f"{_day(first)}: {times} {what.format(change.zone)}"
    return (
        f"{_day(_reading(change.local_before))}: the clock goes from "
        f"{change.local_before:%H:%M} to {change.local_after:%H:%M} in {change.zone}, "
        "runs go on in real time"
    )


def _looks_alike(pattern: Pattern, change: ClockChange) -> bool:
    """Does the new clock name the same instants as the old one?"""
    shift = _reading(change.local_after) - _reading(change.local_before)
    named = {minute * 60 + second for minute in pattern.minutes for second in pattern.seconds}
    return len(pattern.hours) == 24 and {(time + shift) % 3600 for time in named} == named


def _explain_gap(pattern: Pattern, change: ClockChange, first: int, high: int) -> str:
    if not catches_up(pattern, stretch_at(change.zone, seconds_of(change.instant))):
        return f"{_day(first)} does not exist in {change.zone}, no run on that day"
    single = pattern.count(first, high) == 1
    return (
        f"{_day(first)}: {_times(pattern, first, high)} {'does' if single else 'do'} not exist in "
        f"{change.zone}, {'runs' if single else 'run'} once at {_clock(change.local_after)} "
        f"{change.name_after}".rstrip()
    )


def _times(pattern: Pattern, first: int, high: int) -> str:
    """The named times from `first` to before `high`: each of a few, else the outermost two."""
    if pattern.count(first, high) > _NAMED_TIMES:
        last = pattern.last_until(high - 1)
        return f"{_clock_at(first)} to {_clock_at(first if last is None else last)}"
    times: list[str] = []
    reading: int | None = first
    while reading is not None:
        times.append(_clock_at(reading))
        reading = pattern.first_from(reading + 1, high)
    return times[0] if len(times) == 1 else f"{', '.join(times[:-1])} and {times[-1]}"


def _change(zone: str, instant: int, before: int, after: int) -> ClockChange:
    info = zoneinfo.ZoneInfo(zone)
    at = instant_of(instant)
    return ClockChange(
        zone=zone,
        instant=at,
        local_before=instant_of(instant + before).replace(tzinfo=None),
        local_after=instant_of(instant + after).replace(tzinfo=None),
        name_before=_name(at - dt.timedelta(seconds=1), info),
        name_after=_name(at, info),
    )


def _name(instant: dt.datetime, info: zoneinfo.ZoneInfo) -> str:
    return instant.astimezone(info).tzname() or ""


def _is_out_of_bounds(r: Recurrence, instant: dt.datetime) -> bool:
    return (r.start_at is not None and instant < r.start_at) or (
        r.end_at is not None and instant > r.end_at
    )


def _reading(wall: dt.datetime) -> int:
    return seconds_of(wall.replace(tzinfo=dt.UTC))


def _day(reading: int) -> str:
    # Not by strftime, which speaks whatever language the process was set to.
    day = instant_of(reading)
    weekday, month = WEEKDAYS[day.isoweekday() % 7], MONTHS[day.month - 1]
    return f"{weekday.title()} {day.day} {month.title()} {day.year}"


def _clock_at(reading: int) -> str:
    return _clock(instant_of(reading))


def _clock(wall: dt.datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"
