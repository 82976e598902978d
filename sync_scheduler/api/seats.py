"""How many live streams may be open in this process: for each caller, and in all."""

from __future__ import annotations

import itertools
import threading

from sync_scheduler import clock

PER_CALLER = 5
IN_ALL = 100

_lock = threading.Lock()
_numbers = itertools.count(1)
# Seat number -> who sits there, and until when at most. A seat whose holder vanished without a
# word is free again after that.
_taken: dict[int, tuple[str, float]] = {}


def take(caller: str, lifetime_seconds: float) -> int | None:
    """The number of a free seat, or None."""
    now = clock.monotonic()
    with _lock:
        for number in [number for number, (_, until) in _taken.items() if until <= now]:
            del _taken[number]
        own = sum(1 for name, _ in _taken.values() if name == caller)
        if own >= PER_CALLER or len(_taken) >= IN_ALL:
            return None
        number = next(_numbers)
        _taken[number] = (caller, now + lifetime_seconds)
        return number


def give_back(number: int) -> None:
    """Harmless when repeated."""
    with _lock:
        _taken.pop(number, None)


def taken() -> int:
    with _lock:
        return len(_taken)
