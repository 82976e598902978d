"""How many live streams may be open in this process: for each caller, and in all."""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

from sync_scheduler import clock

PER_CALLER = 5
IN_ALL = 100
# A stream that holds a thread keeps it from everybody else; so few of those.
HOLDING_A_THREAD = 4


class _Seat(NamedTuple):
    caller: str
    until: float
    holds_thread: bool


_lock = threading.Lock()
_numbers = itertools.count(1)
# A seat whose holder vanished without a word is free again when its time is over.
_taken: dict[int, _Seat] = {}


def take(caller: str, lifetime_seconds: float, *, holds_thread: bool = False) -> int | None:
    """The number of a free seat, or None."""
    now = clock.monotonic()
    with _lock:
        # A copy, as seats may be given back at any moment.
        seats = _taken.copy()
        for number in [number for number, seat in seats.items() if seat.until <= now]:
            give_back(number)
            del seats[number]
        own = sum(seat.caller == caller for seat in seats.values())
        holding = sum(seat.holds_thread for seat in seats.values())
        if own >= PER_CALLER or len(seats) >= IN_ALL:
            return None
        if holds_thread and holding >= HOLDING_A_THREAD:
            return None
        number = next(_numbers)
        _taken[number] = _Seat(caller, now + lifetime_seconds, holds_thread)
        return number


def give_back(number: int) -> None:
    """Harmless when repeated.

    Without the lock: a stream that nobody has read to its end gives its seat back when it is
    collected as garbage, and that may be in the middle of `take`, in the thread that holds it.
    """
    _taken.pop(number, None)


def taken() -> int:
    return len(_taken)
