"""Rules: when something is to run, as people declare it and as the scheduler computes it.

`cron()`, `every()` and `once()` return a Rule: the "when" with the options around it, None
where nothing was said. A Recurrence is the "when" alone, complete and checked; slots are
computed from it and from nothing else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack

from sync_scheduler.errors import InvalidRule
from sync_scheduler.timing import interval, zones
from sync_scheduler.timing.cron import next_slot, pattern_of
from sync_scheduler.timing.zones import check_zone, first_instant, instant_of, seconds_of

Kind = Literal["cron", "interval", "once"]

_MICROSECOND = dt.timedelta(microseconds=1)
_LARGEST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """The pure "when".

    `expression` is the cron text, the period in seconds ("600", "0.5") or an ISO instant in
    UTC. `start_at` and `end_at` bound the slots, both inclusive.

    An interval's slots are `anchor + k * period` in elapsed time. With `start_at` they begin
    at the anchor itself; without it the anchor is only the moment the schedule was made, and
    the first slot comes one period later.
    """

    kind: Kind
    expression: str
    timezone: str = "UTC"
    anchor: dt.datetime | None = None
    start_at: dt.datetime | None = None
    end_at: dt.datetime | None = None

    def __post_init__(self) -> None:
        check_zone(self.timezone)
        for name in ("anchor", "start_at", "end_at"):
            _check_aware(name, getattr(self, name))
        if self.kind == "cron":
            pattern_of(self.expression)
        elif self.kind == "interval":
            interval.period_of(self.expression)
            if self.anchor is None:
                raise InvalidRule("interval has no anchor; give the instant it counts from.")
        elif self.kind == "once":
            _instant(self.expression)
        else:
            raise InvalidRule(f"kind {self.kind!r} is unknown; use 'cron', 'interval' or 'once'.")
        self._check_bounds()

    @property
    def instant(self) -> dt.datetime:
        """When a rule of kind "once" is due."""
        return _instant(self.expression)

    @property
    def grid_anchor(self) -> dt.datetime:
        """What an interval counts from."""
        if self.anchor is None:
            raise InvalidRule(f"a rule of kind {self.kind!r} has no anchor.")
        return self.anchor

    @property
    def first_step(self) -> int:
        """The number of an interval's first slot, counted in periods from the anchor."""
        return 0 if self.start_at is not None else 1

    def _check_bounds(self) -> None:
        start, end = self.start_at, self.end_at
        if start is not None and end is not None and end < start:
            raise InvalidRule(
                f"end_at {end.isoformat()} is before start_at {start.isoformat()}; "
                "the schedule would never fire."
            )
        if self.kind == "once":
            if (start is not None and self.instant < start) or (
                end is not None and self.instant > end
            ):
                raise InvalidRule(
                    f"instant {self.instant.isoformat()} is outside start_at and end_at; "
                    "the schedule would never fire."
                )
        elif start is not None and end is not None and self._first_from(start) > end:
            raise InvalidRule(
                f"no slot lies between start_at {start.isoformat()} and end_at {end.isoformat()}; "
                "the schedule would never fire."
            )

    def _first_from(self, start: dt.datetime) -> dt.datetime:
        if self.kind == "cron":
            second = next_slot(self.expression, self.timezone, seconds_of(start - _MICROSECOND))
            return dt.datetime.max.replace(tzinfo=dt.UTC) if second is None else instant_of(second)
        period = interval.period_of(self.expression)
        before = interval.steps_until(self.grid_anchor, period, start - _MICROSECOND)
        return self.grid_anchor + period * max(before + 1, 0)


class Options(TypedDict, total=False):
    """What may be said beside any rule. Durations are seconds or a timedelta."""

    name: str | None
    input: Mapping[str, Any] | None
    misfire: str | None
    max_catch_up: int | None
    misfire_grace: float | dt.timedelta | None
    overlap: str | None
    jitter: float | dt.timedelta | None
    start_at: dt.datetime | None
    end_at: dt.datetime | None
    enabled: bool | None
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A declared "when" with its options; None means "not said", so that a default can apply.

    `misfire_grace` and `jitter` are seconds.
    """

    kind: Kind
    expression: str
    timezone: str | None = None
    anchor: dt.datetime | None = None
    name: str | None = None
    input: Mapping[str, Any] | None = None
    misfire: str | None = None
    max_catch_up: int | None = None
    misfire_grace: float | None = None
    overlap: str | None = None
    jitter: float | None = None
    start_at: dt.datetime | None = None
    end_at: dt.datetime | None = None
    enabled: bool | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # A faulty rule is refused where it is written, not on the first start-up.
        some = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
        self.recurrence(default_timezone="UTC", anchor=some)
        if self.max_catch_up is not None:
            _check_number("max_catch_up", self.max_catch_up, int, 1, "a number from 1 up")
        for name in ("misfire_grace", "jitter"):
            _seconds(name, getattr(self, name))

    def recurrence(self, *, default_timezone: str, anchor: dt.datetime) -> Recurrence:
        """The rule made complete; `anchor` is what an interval without a start counts from."""
        # Whole seconds: nobody wants to read that something runs at 08:00:00.483920.
        own = self.anchor or anchor.replace(microsecond=0)
        return Recurrence(
            kind=self.kind,
            expression=self.expression,
            timezone=default_timezone if self.timezone is None else self.timezone,
            anchor=own if self.kind == "interval" else None,
            start_at=self.start_at,
            end_at=self.end_at,
        )


def cron(expr: str, tz: str | dt.tzinfo | None = None, **options: Unpack[Options]) -> Rule:
    """Run when the clock on the wall shows what the expression names.

    Five fields: minute, hour, day of month, month, day of week. With six, the LAST is the
    second: `cron("30 6 * * * 15")` is 06:30:15. Names (`mon`, `jan`), lists, ranges, steps,
    `L` (last day), `15W` (nearest weekday), `fri#2` (second Friday), `L5` (last Friday) and
    `@hourly` to `@yearly` are understood.
    """
    zone = _zone_name(tz)
    return Rule(kind="cron", expression=_spaced(expr), timezone=zone, **_said(options, zone))


def every(
    delta: dt.timedelta | None = None,
    *,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
    start: dt.datetime | None = None,
    tz: str | dt.tzinfo | None = None,
    **options: Unpack[Options],
) -> Rule:
    """Run every so often in elapsed time, from `start` on or from when it was registered.

    `every(days=1)` is every 24 hours, whatever the clocks do; for "at six every day" use cron.
    """
    if delta is not None and not isinstance(delta, dt.timedelta):
        raise InvalidRule(f"interval {delta!r} has no unit; write every(seconds={delta!r}).")
    try:
        period = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        period += delta or dt.timedelta()
    except (TypeError, ValueError, OverflowError):
        raise InvalidRule("interval is not a usable number; write every(minutes=10).") from None
    interval.check_period(period)
    zone = _zone_name(tz)
    said = _said(options, zone)
    anchor = _utc("start", start, zone) or said.get("start_at")
    said["start_at"] = said.get("start_at") or anchor
    return Rule(
        kind="interval", expression=interval.text_of(period), timezone=zone, anchor=anchor, **said
    )


def once(at: dt.datetime, tz: str | dt.tzinfo | None = None, **options: Unpack[Options]) -> Rule:
    """Run one time: at an aware datetime, or at a naive one on the wall of `tz`."""
    zone = _zone_name(tz)
    instant = _utc("at", at, zone)
    if instant is None:
        raise InvalidRule("once() has no instant; give an aware datetime.")
    if zone is None and at.tzinfo is not None:
        key = getattr(at.tzinfo, "key", None)
        zone = key if isinstance(key, str) else None
    return Rule(kind="once", expression=instant.isoformat(), timezone=zone, **_said(options, zone))


def _spaced(expr: object) -> str:
    """With single spaces: two ways to write the same rule must not look like a change."""
    if not isinstance(expr, str):
        raise InvalidRule(f"cron expression {expr!r} is not a text; write one as '0 6 * * *'.")
    return " ".join(expr.split())


def _said(options: Options, zone: str | None) -> dict[str, Any]:
    said: dict[str, Any] = dict(options)
    for name in ("start_at", "end_at"):
        if name in said:
            said[name] = _utc(name, said[name], zone)
    for name in ("misfire_grace", "jitter"):
        if name in said:
            said[name] = _seconds(name, said[name])
    return said


def _zone_name(tz: str | dt.tzinfo | None) -> str | None:
    if tz is None:
        return None
    name = "UTC" if tz is dt.UTC else getattr(tz, "key", tz)
    check_zone(name)
    return str(name)


def _utc(name: str, value: dt.datetime | None, zone: str | None) -> dt.datetime | None:
    if isinstance(value, dt.datetime) and value.utcoffset() is None and zone is not None:
        zones.check_year(name, value)
        return first_instant(zone, value)
    _check_aware(name, value)
    return None if value is None else value.astimezone(dt.UTC)


def _check_aware(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, dt.datetime):
        raise InvalidRule(f"{name} {value!r} is not a datetime.")
    if value.utcoffset() is None:
        raise InvalidRule(
            f"{name} {value.isoformat()} has no time zone; give an aware datetime, or tz= with it."
        )
    zones.check_year(name, value)


def _seconds(name: str, value: float | dt.timedelta | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, dt.timedelta):
        value = value.total_seconds()
    _check_number(name, value, int | float, 0, "a number of seconds from 0 up")
    return float(value)


def _check_number(name: str, value: Any, kind: Any, low: int, wanted: str) -> None:
    # True is an int to Python, but nobody means a number by it.
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not low <= value <= _LARGEST:
        raise InvalidRule(f"{name} {value!r} is not {wanted}.")


@lru_cache(maxsize=2048)
def _instant(text: str) -> dt.datetime:
    try:
        instant = dt.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidRule(
            f"instant {text[:40]!r} is not an ISO time such as '2026-11-23T07:00:00+00:00'."
        ) from None
    _check_aware("instant", instant)
    return instant.astimezone(dt.UTC)
