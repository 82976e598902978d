"""How the clocks of a time zone run: stretches of constant offset, and the jumps between.

Everything is counted in whole seconds. An instant is a second since 1970 in UTC; a reading
is what the zone's clock shows, as if it were such a second. `reading = instant + offset`.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from sync_scheduler.errors import InvalidRule

DAY = 86_400
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_LONGEST_NAME = 64
_CHUNK = 366 * DAY
# Since 1970 no two changes of a zone lie closer together than 6.9 days (Ramadan, and decrees
# taken back after a week), so that a scan in steps of six days sees each of them alone.
_SCAN = 6 * DAY
# What a datetime can hold, with room for any offset on both sides.
_FIRST_INSTANT = -719_000 * DAY
_LAST_INSTANT = 2_932_000 * DAY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """Instants from `start` to before `end` in which the offset stays the same.

    `gap_from` is the reading at which the clock jumped ahead to `start + offset`, equal to
    it when there was no such jump. `first_new` is the first reading that the clock has not
    shown before: later than `start + offset` after the clock was put back.
    """

    start: int
    end: int
    offset: int
    gap_from: int
    first_new: int

    @property
    def opens_with_gap(self) -> bool:
        return self.gap_from < self.start + self.offset


def seconds_of(instant: dt.datetime) -> int:
    """The whole second in which the instant lies, exactly (no float on the way)."""
    passed = instant - EPOCH
    return passed.days * DAY + passed.seconds


def instant_of(second: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=second)


def check_zone(name: object) -> None:
    """Refuse whatever is not the plain name of an IANA zone."""
    if not isinstance(name, str) or not name:
        raise InvalidRule(f"time zone {name!r} is not a name; use one such as 'Europe/Berlin'.")
    if len(name) > _LONGEST_NAME:
        raise InvalidRule(
            f"time zone name is {len(name)} characters long, at most {_LONGEST_NAME} are allowed."
        )
    if name not in _known_zones():
        raise InvalidRule(
            f"time zone {name!r} is unknown; use an IANA name such as 'Europe/Berlin' or 'UTC'."
        )


@lru_cache(maxsize=1)
def _known_zones() -> frozenset[str]:
    # "localtime" names another zone on every machine, so a cluster cannot agree on it.
    return frozenset(zoneinfo.available_timezones() - {"localtime"})


@lru_cache(maxsize=1)
def tzdata_version() -> str:
    """Which edition of the time zone database this process reads; "" if it does not say."""
    for folder in zoneinfo.TZPATH:
        source = Path(folder) / "tzdata.zi"
        if source.is_file():
            with source.open(encoding="utf-8") as lines:
                return lines.readline().removeprefix("# version").strip()
    try:
        return metadata.version("tzdata")
    except metadata.PackageNotFoundError:
        return ""


def check_year(name: str, value: dt.datetime) -> None:
    """Refuse what lies so near an end of the calendar that not every zone's clock can show it."""
    if not dt.MINYEAR < value.year < dt.MAXYEAR:
        raise InvalidRule(
            f"{name} {value.isoformat()} is outside the years {dt.MINYEAR + 1} to {dt.MAXYEAR - 1}."
        )


def stretch_at(zone: str, instant: int) -> Stretch:
    """The stretch in which the instant lies (cut at a chunk's end, where nothing jumps)."""
    starts, stretches = _chunk(zone, instant // _CHUNK)
    return stretches[bisect_right(starts, instant) - 1]


def first_instant(zone: str, wall: dt.datetime) -> dt.datetime:
    """The instant of a naive wall-clock time: the next valid one if there is none.

    Of two it is the first, and with `fold=1` the second, as everywhere in Python.
    """
    reading = seconds_of(wall.replace(tzinfo=dt.UTC, microsecond=0))
    instant = reading - DAY
    while True:
        stretch = stretch_at(zone, instant)
        if reading < stretch.start + stretch.offset:
            return instant_of(stretch.start)
        if reading < stretch.end + stretch.offset:
            following = stretch_at(zone, stretch.end)
            if wall.fold and reading >= following.start + following.offset:
                stretch = following
            exact = instant_of(reading - stretch.offset)
            return exact + dt.timedelta(microseconds=wall.microsecond)
        instant = stretch.end


@lru_cache(maxsize=4096)
def _chunk(zone: str, number: int) -> tuple[tuple[int, ...], tuple[Stretch, ...]]:
    # One scan step is looked at before the chunk begins, so that a clock which is put back
    # just before the border still counts as repeating its readings after it.
    start, end = number * _CHUNK - _SCAN, (number + 1) * _CHUNK
    stretches: list[Stretch] = []
    offset = offset_at(zone, start)
    shown = start + offset
    gap_from = shown
    for change, after in [*_changes(zone, start, end), (end, 0)]:
        stretches.append(
            Stretch(
                start=start,
                end=change,
                offset=offset,
                gap_from=min(gap_from, start + offset),
                first_new=max(shown, start + offset),
            )
        )
        shown = max(shown, change + offset)
        gap_from = shown
        start, offset = change, after
    return tuple(stretch.start for stretch in stretches), tuple(stretches)


def _changes(zone: str, start: int, end: int) -> list[tuple[int, int]]:
    """Instants after `start` and before `end` at which the offset changes, and to what."""
    found = []
    before = offset_at(zone, start)
    for low in range(start, end, _SCAN):
        high = min(low + _SCAN, end - 1)
        after = offset_at(zone, high)
        if after != before:
            while high - low > 1:
                middle = (low + high) // 2
                if offset_at(zone, middle) == before:
                    low = middle
                else:
                    high = middle
            found.append((high, after))
            before = after
    return found


def offset_at(zone: str, instant: int) -> int:
    """Seconds by which the zone's clock is ahead of UTC at the instant."""
    within = min(max(instant, _FIRST_INSTANT), _LAST_INSTANT)
    offset = dt.datetime.fromtimestamp(within, zoneinfo.ZoneInfo(zone)).utcoffset()
    return 0 if offset is None else offset.days * DAY + offset.seconds
