"""How many runs of a job may start in a span of time."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections import deque
from collections.abc import Iterable, Sequence

from sync_scheduler.errors import InvalidJob

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_SECOND = 1_000_000
_MOST_NOTES = 60
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    count: int
    seconds: int


class Allowance:
    """What a rate limit leaves over, by the starts of the last period.

    Every start counts for one whole period, so that no span of that length, wherever it begins,
    holds more than the limit. Where the limit is large, starts are noted together, as if they had
    come at the end of their sixtieth of the period: the note stays short, and errs on one side.
    """

    def __init__(self, rate: RateLimit, starts: Iterable[Sequence[int]], now: dt.datetime) -> None:
        self._count = rate.count
        self._period = rate.seconds * _SECOND
        self._grain = 1 if rate.count <= _MOST_NOTES else self._period // _MOST_NOTES
        self._now = (now - _EPOCH) // _MICROSECOND
        since = self._now - self._period
        self._starts = [(at, number) for at, number in starts if at > since]
        self._used = sum(number for _, number in self._starts)
        self._leaving: deque[tuple[int, int]] | None = None

    @property
    def starts(self) -> list[tuple[int, int]]:
        """When how many started, oldest first: microseconds since 1970, and a number."""
        return self._starts

    def take(self) -> bool:
        """Start one now; False: it must wait."""
        if self._used >= self._count:
            return False
        at = -(-self._now // self._grain) * self._grain
        number = 1
        if self._starts and self._starts[-1][0] >= at:
            at, before = self._starts.pop()
            number += before
        self._starts.append((at, number))
        self._used += 1
        return True

    def next_start(self) -> dt.datetime:
        """When one that must wait may start; the next one that is asked for comes behind it."""
        if self._leaving is None:
            self._leaving = deque(self._starts)
            # A limit that was lowered is used up until enough of them count no more.
            for _ in range(self._used - self._count):
                self._leave()
        at = self._leave() + self._period
        self._leaving.append((at, 1))
        return _EPOCH + at * _MICROSECOND

    def _leave(self) -> int:
        """The oldest start that has not been given to another one yet."""
        assert self._leaving is not None  # noqa: S101  # made by who asks
        at, number = self._leaving.popleft()
        if number > 1:
            self._leaving.appendleft((at, number - 1))
        return at


def still_count(starts: Iterable[Sequence[int]], now: dt.datetime) -> bool:
    """Whether any of these starts may still count against some limit, whatever its period."""
    longest = dt.timedelta(seconds=max(_SECONDS.values()))
    since = (now - longest - _EPOCH) // _MICROSECOND
    return any(at > since for at, _ in starts)


def parse_rate(text: str) -> RateLimit:
    """`"100/m"`: a hundred a minute. Units are s, m, h and d."""
    match = re.fullmatch(r"(\d+)\s*/\s*([smhd])", str(text).strip())
    if match is None or int(match[1]) == 0:
        raise InvalidJob(f"rate_limit {text!r} must look like '100/m' (units s, m, h, d).")
    return RateLimit(count=int(match[1]), seconds=_SECONDS[match[2]])
