"""How far this machine's clock is from the database's."""

from __future__ import annotations

import datetime as dt
from collections import deque

from sync_scheduler import clock

_SAMPLES = 8
_JUMP = dt.timedelta(seconds=0.5)


class TimeOffset:
    """Believes the quickest of the last answers: the longer one took, the less it says."""

    def __init__(self) -> None:
        self._samples: deque[tuple[dt.timedelta, dt.timedelta]] = deque(maxlen=_SAMPLES)

    def measure(self, asked: dt.datetime, answer: dt.datetime, received: dt.datetime) -> None:
        """The database said `answer` at some moment between `asked` and `received`."""
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

    @property
    def _offset(self) -> dt.timedelta:
        return min(self._samples)[1] if self._samples else dt.timedelta()

    @property
    def seconds(self) -> float:
        """How far the machine's clock is ahead (+) of the database's or behind it (-)."""
        return -self._offset.total_seconds()

    @property
    def seconds_off(self) -> float:
        return abs(self._offset.total_seconds())

    def database_time(self) -> dt.datetime:
        """What time it is for the database, as well as we know."""
        return clock.now() + self._offset
