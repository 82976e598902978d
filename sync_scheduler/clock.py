"""The only place where the time is read.

Everything else takes `now` as an argument or asks here, so that tests (and the `travel`
helper that users get) can move the scheduler's time without touching the machine's.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager

_offset = dt.timedelta()
_offset_seconds = 0.0


def now() -> dt.datetime:
    """The current instant, aware, in UTC."""
    return dt.datetime.now(dt.UTC) + _offset


def unix_seconds() -> float:
    """`now()` as seconds since 1970; what processes tell each other."""
    return time.time() + _offset_seconds


def unix_nanoseconds() -> int:
    """Nanoseconds since 1970; what time-ordered ids are made of."""
    return time.time_ns()


def monotonic() -> float:
    """Seconds that only grow; for durations and deadlines inside one process."""
    return time.monotonic()


def boot_seconds() -> float:
    """Like `monotonic`, but it goes on counting while the machine is suspended."""
    return time.clock_gettime(_BOOT_CLOCK)


def sleep(seconds: float) -> None:
    """Wait in the real world, whatever the scheduler's clock says."""
    time.sleep(seconds)


@contextmanager
def shifted(offset: dt.timedelta) -> Iterator[None]:
    """Move the scheduler's clock inside the block, from where it stood before."""
    before = _offset
    _shift(before + offset)
    try:
        yield
    finally:
        _shift(before)


def _shift(offset: dt.timedelta) -> None:
    global _offset, _offset_seconds
    _offset, _offset_seconds = offset, offset.total_seconds()


# A lease must not survive a laptop's sleep, which CLOCK_MONOTONIC does not count.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
