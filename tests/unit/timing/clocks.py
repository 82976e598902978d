"""Which zones keep the same time from 2000 to 2037, found out without the scheduler's own search.

Of 598 names most are aliases, or differ only before 2000. What holds for the slots of one zone
holds for all that keep its time, so that each kept time need be proved once.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

ZONES = sorted(zoneinfo.available_timezones() - {"localtime"})
START, END = dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(2038, 1, 1, tzinfo=dt.UTC)
# The scheduler looks for changes every six days; what it could miss is to be seen here.
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class KeptTime:
    """The offset at the beginning of 2000, and each change: its second, the offset from then on."""

    first: int
    changes: tuple[tuple[int, int], ...]


@cache
def kept_time(zone: str) -> KeptTime:
    """What the clock of a zone does, looked at once a day."""
    info, start, end = zoneinfo.ZoneInfo(zone), int(START.timestamp()), int(END.timestamp())
    first = before = offset(info, start)
    changes = []
    for low in range(start, end, _DAY):
        after = offset(info, low + _DAY)
        if after != before:
            changes.append((_changed_at(info, low, low + _DAY), after))
            before = after
    return KeptTime(first, tuple(changes))


@cache
def families() -> dict[KeptTime, list[str]]:
    """The names of the zones by the time that they keep."""
    found = defaultdict(list)
    for zone in ZONES:
        found[kept_time(zone)].append(zone)
    return dict(found)


def offset(info: zoneinfo.ZoneInfo, second: int) -> int:
    shift = dt.datetime.fromtimestamp(second, info).utcoffset()
    assert shift is not None
    return round(shift.total_seconds())


def _changed_at(info: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    before = offset(info, low)
    while high - low > 1:
        middle = (low + high) // 2
        if offset(info, middle) == before:
            low = middle
        else:
            high = middle
    return high
