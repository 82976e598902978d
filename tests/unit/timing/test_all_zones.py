"""Every zone and its changes from 2000 to 2037, against two oracles.

A sample of changes by default, one of every zone. TIMING_ALL_CHANGES=1 (`make test-zones`) takes
every change of every time that is kept anywhere; zones that keep the same time take turns in
standing for each other, and the last tests here show that they may.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import zoneinfo
from collections.abc import Iterator

from cronsim import CronSim

from sync_scheduler.timing import slots
from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.timing.slots import ClockChange
from sync_scheduler.timing.zones import Stretch, instant_of, offset_at, seconds_of, stretch_at
from tests.unit.timing import oracle
from tests.unit.timing.clocks import END, START, ZONES, families, kept_time, offset

ALL = os.environ.get("TIMING_ALL_CHANGES") == "1"
EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "0,30 2 * * *",
    "15 23 * * *",
    "0 1,2,3 * * *",
    "*/15 0-3 * * *",
    "59 1 * * *",
    "*/30 * * * *",
    "7 * * * *",
    "0 */2 * * *",
    "*/20 1-23/2 * * *",
    "30 0 1 * mon",
    "0 12 L * *",
    "5 2 */2 * sun",
    "45 0 * 3,10 *",
)
# Where cronsim keeps another rule than ours it is no oracle: a wildcard minute within a fixed
# hour follows real time there, a step that does not begin with a star is a fixed time, and a
# local day that does not exist gives an extra run. Nor is it one where the clock moves by half
# an hour or a minute past the hour: it steps over a time then (America/Caracas, 2016: no run
# at 03:07) or never gets beyond it (America/Moncton, 2000: 00:00 again and again).
CRONSIM = tuple(
    text for text in EXPRESSIONS if not text.startswith("*/15") and "1-23/2" not in text
)
SECOND = dt.timedelta(seconds=1)


def sampled(seed: int) -> Iterator[tuple[str, ClockChange]]:
    """One change of every zone, the first after an instant by chance; or all that there are."""
    chance = random.Random(seed)
    if ALL:
        yield from every(chance)
        return
    for zone in ZONES:
        base = START + dt.timedelta(days=chance.randrange(36 * 365))
        while base < END:
            change = next(iter(slots.dst_changes(zone, base, 1)), None)
            if change is not None and change.instant < END:
                yield zone, change
                break
            # A zone that has not changed for three years may change again.
            base = change.instant if change is not None else base + dt.timedelta(days=3 * 366)


def every(chance: random.Random) -> Iterator[tuple[str, ClockChange]]:
    """Every change of every kept time, each in one of the zones that keep it."""
    for kept, names in families().items():
        for second, _ in kept.changes:
            zone = chance.choice(names)
            (change,) = slots.dst_changes(zone, instant_of(second) - SECOND, 1)
            assert seconds_of(change.instant) == second, (zone, change)
            yield zone, change


def around(change: ClockChange, hours: int) -> tuple[dt.datetime, dt.datetime]:
    middle = change.instant.replace(second=0)
    return middle - dt.timedelta(hours=hours), middle + dt.timedelta(hours=hours)


def between(text: str, zone: str, start: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    """Slots in [start, end), asked for one after the other as the dispatcher does."""
    recurrence = Recurrence(kind="cron", expression=text, timezone=zone)
    found = []
    slot = slots.first_from(recurrence, start)
    while slot is not None and slot < end:
        found.append(slot)
        slot = slots.next_after(recurrence, slot)
    return found


def by_cronsim(text: str, zone: str, start: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    base = (start - dt.timedelta(seconds=1)).astimezone(zoneinfo.ZoneInfo(zone))
    found = (slot.astimezone(dt.UTC) for slot in itertools.islice(CronSim(text, base), 500))
    return list(itertools.takewhile(lambda slot: slot < end, found))


def test_the_written_rule_holds_at_every_change() -> None:
    # A13; faults A13
    chance, seen = random.Random(13), 0
    for zone, change in sampled(seed=1):
        start, end = around(change, 30)
        for text in EXPRESSIONS if ALL else chance.sample(EXPRESSIONS, 3):
            wanted = oracle.slots(text, zone, start, end)
            assert between(text, zone, start, end) == wanted, (text, zone, change)
            seen += 1
    assert seen > 600


def test_cronsim_agrees_at_every_change() -> None:
    # A13
    chance, seen = random.Random(23), 0
    for zone, change in sampled(seed=2):
        is_whole_hour = change.local_before.minute == change.local_after.minute == 0
        if not is_whole_hour or abs(change.local_after - change.local_before) > dt.timedelta(
            hours=3
        ):
            continue
        start, end = around(change, 40)
        for text in CRONSIM if ALL else chance.sample(CRONSIM, 4):
            wanted = by_cronsim(text, zone, start, end)
            assert between(text, zone, start, end) == wanted, (text, zone, change)
            seen += 1
    assert seen > 700


def test_slots_increase_and_can_be_counted_and_walked_backwards_at_every_change() -> None:
    # A13; faults A13
    chance, microsecond = random.Random(31), dt.timedelta(microseconds=1)
    for zone, change in sampled(seed=3):
        start, end = around(change, 50)
        for text in EXPRESSIONS if ALL else chance.sample(EXPRESSIONS, 5):
            found = between(text, zone, start, end)
            assert all(earlier < later for earlier, later in itertools.pairwise(found))
            recurrence = Recurrence(kind="cron", expression=text, timezone=zone)
            after, until = start - microsecond, end - microsecond
            assert slots.count(recurrence, after, until) == len(found), (text, zone, change)
            assert slots.latest(recurrence, after, until, 1000) == found, (text, zone, change)


def test_a_daily_time_runs_once_on_every_local_day_that_exists() -> None:
    # A13; faults A13
    for zone, change in sampled(seed=4):
        info = zoneinfo.ZoneInfo(zone)
        first = (change.instant - dt.timedelta(days=2)).astimezone(info).date()
        days = [first + dt.timedelta(days=number) for number in range(1, 5)]
        existing = [day for day in days if oracle.exists(day, info)]
        # From the first instant of the first day to the last of the last, away from the change.
        start = dt.datetime.combine(days[0], dt.time(), info).astimezone(dt.UTC)
        end = dt.datetime.combine(days[-1] + dt.timedelta(days=1), dt.time(), info)
        for text in ("30 2 * * *", "0 0 * * *", "30 23 * * *", "0 12 * * *"):
            found = between(text, zone, start, end.astimezone(dt.UTC))
            assert len(found) == len(existing), (text, zone, change)


def test_the_clocks_of_all_zones_are_known() -> None:
    # A13
    chance = random.Random(5)
    for zone in ZONES:
        year = dt.datetime(chance.randrange(2000, 2038), 1, 1, tzinfo=dt.UTC)
        first = seconds_of(year)
        for instant in range(first, first + 366 * 86_400, 86_400):
            assert stretch_at(zone, instant).offset == offset_at(zone, instant), (zone, instant)


def test_no_change_of_any_zone_is_missed() -> None:
    # A13: found by the scheduler in steps of six days, by the test in steps of one
    for zone in ZONES:
        kept = kept_time(zone)
        assert stretch_at(zone, seconds_of(START)).offset == kept.first, zone
        assert _changes_of(zone) == kept.changes, zone


def test_zones_that_keep_the_same_time_stand_for_each_other() -> None:
    # A13: neither the oracles nor the scheduler see anything else of a zone than this
    hours = [dt.timedelta(hours=number) for number in (-30, -3, -1, 0, 1, 3, 30)]
    for kept, (first, *others) in families().items():
        near = [
            seconds_of(instant_of(second) + hour) + step
            for second, _ in kept.changes
            for hour in hours
            for step in (-1, 0)
        ]
        info, stretches = zoneinfo.ZoneInfo(first), _facts(first)
        offsets = [offset(info, second) for second in near]
        for other in others:
            info = zoneinfo.ZoneInfo(other)
            assert [offset(info, second) for second in near] == offsets, (first, other)
            assert _facts(other) == stretches, (first, other)


def _stretches(zone: str) -> Iterator[Stretch]:
    instant, end = seconds_of(START), seconds_of(END)
    while instant < end:
        stretch = stretch_at(zone, instant)
        yield stretch
        instant = stretch.end


def _changes_of(zone: str) -> tuple[tuple[int, int], ...]:
    pairs = itertools.pairwise(_stretches(zone))
    return tuple(
        (after.start, after.offset) for before, after in pairs if before.offset != after.offset
    )


def _facts(zone: str) -> list[tuple[int, ...]]:
    # How the stretch began in which 2000 lies may differ; no test looks back so far.
    first, *others = _stretches(zone)
    whole = ((s.start, s.end, s.offset, s.gap_from, s.first_new) for s in others)
    return [(first.end, first.offset), *whole]
