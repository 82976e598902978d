"""Intervals: a period as text, and the grid of instants that it makes from its anchor.

All arithmetic is in whole microseconds, so that the millionth slot has not drifted.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

from sync_scheduler.errors import InvalidRule

SHORTEST = dt.timedelta(milliseconds=10)
LONGEST = dt.timedelta(days=36_525)

_MICROSECOND = dt.timedelta(microseconds=1)
_DECIMAL = re.compile(r"(\d{1,10})(?:\.(\d{1,6}))?", re.ASCII)


def text_of(period: dt.timedelta) -> str:
    """The period in seconds as the shortest decimal: "600", "0.5"."""
    seconds, micros = divmod(period // _MICROSECOND, 1_000_000)
    return f"{seconds}.{micros:06d}".rstrip("0").rstrip(".")


@lru_cache(maxsize=2048)
def period_of(text: str) -> dt.timedelta:
    """The period that the text says; InvalidRule if it says none or an unusable one."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise InvalidRule(f"interval {text[:40]!r} is not a number of seconds such as '600'.")
    period = dt.timedelta(seconds=int(found[1]), microseconds=int((found[2] or "").ljust(6, "0")))
    check_period(period)
    return period


def check_period(period: dt.timedelta) -> None:
    if not SHORTEST <= period <= LONGEST:
        raise InvalidRule(
            f"interval of {period.total_seconds():g} seconds is outside "
            f"{SHORTEST.total_seconds():g} seconds to {LONGEST.days} days."
        )


def steps_until(anchor: dt.datetime, period: dt.timedelta, instant: dt.datetime) -> int:
    """The number of the last instant of the grid that is not later; the anchor is number 0."""
    return (instant - anchor) // period
