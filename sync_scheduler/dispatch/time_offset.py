"""How far this machine's clock is from the database's."""

from __future__ import annotations

import datetime as dt
from collections import deque

from sync_scheduler import clock

_SAMPLES = 8
_JUMP = dt.timedelta(seconds=0.5)


class TimeOffset:
    """Believes the quickest of the last answers: the longer one took, the less it says.

    One thread measures; any may ask.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[dt.timedelta, dt.timedelta]] = deque(maxlen=_SAMPLES)
        self._offset = dt.timedelta()
        # What the machine's clock and the steady one said at the same moment.
        self._together: tuple[dt.datetime, float] | None = None

    def measure(self, asked: dt.datetime, answer: dt.datetime, received: dt.datetime) -> None:
        """The database said `answer` at some moment between `asked` and `received`."""
        steady = clock.boot_seconds()
        took = received - asked
        # Anything inside the round trip is explained by the round trip.
        if answer < asked:
            off = answer - asked
        elif answer > received:
            off = answer - received
        else:
            off = dt.timedelta()
        if abs(off - self._offset) > _JUMP:
            self._samples.clear()  # a clock was set: what was measured before says nothing now
        self._samples.append((abs(took), off))
        self._offset = min(self._samples)[1]
        # During one that took long the clock may have been set.
        if self._together is None or abs(took) <= _JUMP:
            self._together = received, steady

    @property
    def seconds(self) -> float:
        """How far the machine's clock is ahead (+) of the database's or behind it (-)."""
        return -self._offset.total_seconds()

    @property
    def seconds_off(self) -> float:
        return abs(self._offset.total_seconds())

    def database_time(self) -> dt.datetime:
        """What time it is for the database, as well as we know."""
        return self._machine_time() + self._offset

    def _machine_time(self) -> dt.datetime:
        """As the machine's clock would have it, had nobody set it since the last answer.

        Until the next answer tells, slots would come due by a clock that jumped ahead, and what
        runs would look as if it were far over its time.
        """
        now, together = clock.now(), self._together
        if together is None:
            return now
        at, steady = together
        expected = at + dt.timedelta(seconds=clock.boot_seconds() - steady)
        return expected if abs(now - expected) > _JUMP else now
