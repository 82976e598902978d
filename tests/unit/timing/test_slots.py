"""Slots: next, newest, how many; for every kind, with and without bounds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync_scheduler.timing import cron
from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.timing.slots import (
    count,
    first_from,
    jitter_for,
    latest,
    next_after,
    preview,
    reaching_back,
    upcoming,
)

NOW = dt.datetime(2026, 11, 18, 8, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
DAILY = Recurrence(kind="cron", expression="0 6 * * *", timezone="Europe/Berlin")

expressions = st.sampled_from(
    [
        "30 2 * * *",
        "*/7 * * * *",
        "0 */5 * * *",
        "0 0 29 2 *",
        "0 9 15W * *",
        "0 9 L * *",
        "0 9 * * fri#2",
        "0 9 * * L1",
        "15 1-4 1 * mon",
        "0 0 */3 * sun",
        "* 2 * 3,10 *",
        "5 4 3 * * */13",
    ]
)
zones = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/Sao_Paulo",
        "Africa/Casablanca",
        "Asia/Kathmandu",
    ]
)
moments = st.datetimes(
    dt.datetime(2000, 1, 1),  # noqa: DTZ001
    dt.datetime(2037, 12, 31),  # noqa: DTZ001
    timezones=st.just(dt.UTC),
)


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    if draw(st.booleans()):
        return Recurrence(kind="cron", expression=draw(expressions), timezone=draw(zones))
    period = draw(st.integers(60_000_000, 10**12))
    anchor = draw(moments)
    return Recurrence(
        kind="interval",
        expression=f"{period // 1_000_000}.{period % 1_000_000:06d}",
        anchor=anchor,
        start_at=draw(st.sampled_from([None, anchor])),
    )


@settings(deadline=None, max_examples=200)
@given(recurrence=recurrences(), base=moments)
def test_slots_only_grow_and_lie_after_the_base(recurrence: Recurrence, base: dt.datetime) -> None:
    # A13
    found = preview(recurrence, base, 6)
    assert all(slot.tzinfo is dt.UTC for slot in found)
    assert all(earlier < later for earlier, later in itertools.pairwise([base, *found]))


@settings(deadline=None, max_examples=200)
@given(
    recurrence=recurrences(),
    base=moments,
    first=st.timedeltas(dt.timedelta(), dt.timedelta(days=3)),
    second=st.timedeltas(dt.timedelta(), dt.timedelta(days=3)),
)
def test_next_newest_and_number_agree(
    recurrence: Recurrence, base: dt.datetime, first: dt.timedelta, second: dt.timedelta
) -> None:
    # A4
    middle, end = base + first, base + first + second
    walked = []
    slot = next_after(recurrence, base)
    while slot is not None and slot <= end:
        walked.append(slot)
        slot = next_after(recurrence, slot)
    assert latest(recurrence, base, end, 10_000) == walked
    assert latest(recurrence, base, end, 3) == walked[-3:]
    assert upcoming(recurrence, base, end, 10_000) == walked
    assert upcoming(recurrence, base, end, 3) == walked[:3]
    assert count(recurrence, base, end) == len(walked)
    # Adjoining ranges neither share a slot nor lose one.
    assert count(recurrence, base, middle) + count(recurrence, middle, end) == len(walked)


def test_an_interval_does_not_drift() -> None:
    # A12
    third = Recurrence(kind="interval", expression="0.333333", anchor=NOW, start_at=NOW)
    step = dt.timedelta(microseconds=333_333)
    far = NOW + step * 10**9
    assert next_after(third, far) == far + step
    assert next_after(third, far - MICROSECOND) == far
    assert count(third, NOW - MICROSECOND, far) == 10**9 + 1
    assert latest(third, NOW, far, 2) == [far - step, far]


def test_an_interval_has_no_slot_before_its_anchor() -> None:
    # A12
    before = NOW - dt.timedelta(days=1)
    explicit = Recurrence(kind="interval", expression="600", anchor=NOW, start_at=NOW)
    implicit = Recurrence(kind="interval", expression="600", anchor=NOW)
    assert next_after(explicit, before) == NOW
    assert next_after(implicit, before) == NOW + dt.timedelta(minutes=10)
    assert count(explicit, before, NOW + dt.timedelta(hours=1)) == 7
    assert count(implicit, before, NOW + dt.timedelta(hours=1)) == 6
    assert latest(explicit, before, NOW, 5) == [NOW]
    assert latest(implicit, before, NOW, 5) == []


def test_an_interval_is_measured_in_elapsed_time_through_a_change_of_the_clock() -> None:
    # A13
    start = dt.datetime(2027, 3, 27, 12, tzinfo=dt.UTC)
    daily = Recurrence(
        kind="interval",
        expression="86400",
        timezone="Europe/Berlin",
        anchor=start,
        start_at=start,
    )
    assert next_after(daily, start) == start + dt.timedelta(hours=24)


def test_an_anchor_in_another_zone_gives_slots_in_utc() -> None:
    # A13
    anchor = NOW.astimezone(dt.timezone(dt.timedelta(hours=2)))
    every = Recurrence(kind="interval", expression="60", anchor=anchor)
    (slot,) = preview(every, NOW, 1)
    assert slot.tzinfo is dt.UTC
    assert latest(every, NOW, NOW + dt.timedelta(minutes=1), 1)[0].tzinfo is dt.UTC


def test_once_is_due_once() -> None:
    # A12
    single = Recurrence(kind="once", expression=NOW.isoformat())
    assert next_after(single, NOW - MICROSECOND) == NOW
    assert next_after(single, NOW) is None
    assert preview(single, NOW - dt.timedelta(days=9), 5) == [NOW]
    assert count(single, NOW - MICROSECOND, NOW) == 1
    assert count(single, NOW, NOW + dt.timedelta(days=1)) == 0
    assert latest(single, NOW - MICROSECOND, NOW, 3) == [NOW]
    assert upcoming(single, NOW - MICROSECOND, NOW, 3) == [NOW]
    assert upcoming(single, NOW, NOW + dt.timedelta(days=1), 3) == []


def test_start_and_end_bound_the_slots_and_are_themselves_allowed() -> None:
    # A12
    start = dt.datetime(2026, 12, 1, 5, tzinfo=dt.UTC)
    bounded = Recurrence(
        kind="cron",
        expression="0 6 * * *",
        timezone="Europe/Berlin",
        start_at=start,
        end_at=start + dt.timedelta(days=2),
    )
    days = [start + dt.timedelta(days=number) for number in range(3)]
    far = NOW + dt.timedelta(days=365)
    assert preview(bounded, NOW, 9) == days
    assert count(bounded, NOW, far) == 3
    assert latest(bounded, NOW, far, 2) == days[1:]
    assert upcoming(bounded, NOW, far, 2) == days[:2]
    assert next_after(bounded, days[-1]) is None
    assert count(bounded, far, far + dt.timedelta(days=1)) == 0


def test_a_start_is_a_bound_and_not_a_slot() -> None:
    # A12
    bounded = Recurrence(
        kind="cron",
        expression="0 6 * * *",
        timezone="UTC",
        start_at=dt.datetime(2026, 12, 1, 6, 0, 0, 1, tzinfo=dt.UTC),
    )
    assert next_after(bounded, NOW) == dt.datetime(2026, 12, 2, 6, tzinfo=dt.UTC)


def test_the_first_slot_from_an_instant_may_be_the_instant() -> None:
    # A12
    six = dt.datetime(2026, 11, 18, 5, tzinfo=dt.UTC)
    assert first_from(DAILY, six) == six


def test_nothing_is_asked_for_and_nothing_is_found() -> None:
    # A4
    later = NOW + dt.timedelta(days=9)
    assert latest(DAILY, NOW, later, 0) == []
    assert upcoming(DAILY, NOW, later, 0) == []
    assert preview(DAILY, NOW, 0) == []
    assert latest(DAILY, later, NOW, 5) == []
    assert upcoming(DAILY, later, NOW, 5) == []
    assert count(DAILY, later, NOW) == 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("* * * * * *", 365 * 86_400),
        ("* * * * *", 365 * 1440),
        ("0 6 * * *", 365),
        # Two changes of the clock: 02:00 to 02:59 falls together once, and once counts single.
        ("* 2 * * *", 364 * 60 + 1),
    ],
)
def test_a_year_is_counted_exactly(text: str, number: int) -> None:
    # A4
    year = Recurrence(kind="cron", expression=text, timezone="Europe/Berlin")
    assert count(year, NOW, NOW + dt.timedelta(days=365)) == number


def test_the_newest_slots_of_a_century_are_found_from_the_newest_side() -> None:
    # A4
    seconds = Recurrence(kind="cron", expression="* * * * * *", timezone="Europe/Berlin")
    end = NOW + dt.timedelta(days=36_500)
    assert latest(seconds, NOW, end, 3) == [end - dt.timedelta(seconds=n) for n in (2, 1, 0)]
    assert count(seconds, NOW, end) == 36_500 * 86_400


def test_the_leap_day_is_found_over_a_century_without_one() -> None:
    # A12
    leap = Recurrence(kind="cron", expression="0 0 29 2 *", timezone="UTC")
    assert [slot.year for slot in preview(leap, dt.datetime(2095, 1, 1, tzinfo=dt.UTC), 2)] == [
        2096,
        2104,
    ]
    last = latest(leap, NOW, dt.datetime(2103, 1, 1, tzinfo=dt.UTC), 2)
    assert [slot.year for slot in last] == [2092, 2096]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("text", ["0 6 * * *", "*/5 * * * *", "0 0 29 2 *", "0 0 L * *"])
def test_the_ends_of_the_calendar_raise_nothing(text: str, zone: str) -> None:
    # A13
    recurrence = Recurrence(kind="cron", expression=text, timezone=zone)
    first = dt.datetime(2, 1, 1, tzinfo=dt.UTC)
    last = dt.datetime(9999, 12, 30, tzinfo=dt.UTC)
    following = next_after(recurrence, first)
    assert following is not None
    assert following > first
    after_all = next_after(recurrence, last)
    assert after_all is None or after_all > last
    assert len(latest(recurrence, first, first + dt.timedelta(days=3000), 1)) == 1


def test_an_interval_that_leaves_the_calendar_ends() -> None:
    # A12
    century = Recurrence(kind="interval", expression=str(36_500 * 86_400), anchor=NOW)
    assert next_after(century, dt.datetime(9990, 1, 1, tzinfo=dt.UTC)) is None


def test_schedules_that_share_a_rule_share_its_computation() -> None:
    # A13
    cron.next_slot.cache_clear()
    for _ in range(100):
        same = Recurrence(kind="cron", expression="11 3 * * *", timezone="Europe/Berlin")
        next_after(same, NOW)
    assert cron.next_slot.cache_info().misses == 1
    assert cron.next_slot.cache_info().maxsize is not None


def test_jitter_is_the_same_on_every_node_and_differs_between_slots_and_schedules() -> None:
    # A12
    assert jitter_for("invoices", NOW, 60) == jitter_for("invoices", NOW, 60)
    berlin = NOW.astimezone(dt.timezone(dt.timedelta(hours=1)))
    assert jitter_for("invoices", berlin, 60) == jitter_for("invoices", NOW, 60)
    assert jitter_for("invoices", NOW, 60) != jitter_for("reminders", NOW, 60)
    later = NOW + dt.timedelta(days=1)
    assert jitter_for("invoices", NOW, 60) != jitter_for("invoices", later, 60)
    # Fixed for ever: a new release that moved it would let a slot run at two times.
    assert jitter_for("invoices", NOW, 60) == dt.timedelta(microseconds=400_539)


@given(name=st.text(), seconds=st.floats(0, 1e6), slot=moments)
def test_jitter_stays_below_its_limit(name: str, seconds: float, slot: dt.datetime) -> None:
    # A12
    delay = jitter_for(name, slot, seconds)
    assert dt.timedelta() <= delay
    assert delay.total_seconds() < seconds or (seconds < 1e-5 and not delay)


def test_jitter_spreads_over_its_whole_range() -> None:
    # A12
    delays = [jitter_for(f"schedule-{number}", NOW, 100).total_seconds() for number in range(1000)]
    tenths = {int(delay // 10) for delay in delays}
    assert tenths == set(range(10))


def test_an_interval_without_a_start_reaches_back_on_its_own_grid() -> None:  # A12, A17
    plain = Recurrence(kind="interval", expression="600", anchor=NOW)
    back = reaching_back(plain, NOW - dt.timedelta(minutes=25))
    found = upcoming(back, NOW - dt.timedelta(minutes=25), NOW + dt.timedelta(minutes=10), 9)

    assert [(slot - NOW) // dt.timedelta(minutes=1) for slot in found] == [-20, -10, 0, 10]
    assert next_after(plain, NOW - dt.timedelta(minutes=25)) == NOW + dt.timedelta(minutes=10)
    for kept in (DAILY, dataclasses.replace(plain, start_at=NOW)):
        assert reaching_back(kept, NOW - dt.timedelta(days=1)) is kept
    assert reaching_back(plain, NOW + MICROSECOND) is plain
    assert reaching_back(plain, dt.datetime.min.replace(tzinfo=dt.UTC)).anchor is not None
