"""Daylight saving: the cases that people know by name, and what is said about them."""

from __future__ import annotations

import datetime as dt
import itertools
import zoneinfo

import pytest

from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.timing.slots import dst_changes, explain_change, next_after, preview


def rule(text: str, zone: str) -> Recurrence:
    return Recurrence(kind="cron", expression=text, timezone=zone)


def local_slots(text: str, zone: str, day: str, n: int) -> list[str]:
    """The first slots from local midnight on, as the zone's clock shows them."""
    info = zoneinfo.ZoneInfo(zone)
    base = dt.datetime.fromisoformat(day).replace(tzinfo=info) - dt.timedelta(microseconds=1)
    found = preview(rule(text, zone), base, n)
    assert all(slot.tzinfo is dt.UTC for slot in found)
    return [f"{slot.astimezone(info):%m-%d %H:%M %z}" for slot in found]


def test_a_daily_job_runs_once_on_the_day_the_clock_goes_forward() -> None:
    # A13
    assert local_slots("30 2 * * *", "Europe/Berlin", "2027-03-27", 3) == [
        "03-27 02:30 +0100",
        "03-28 03:00 +0200",
        "03-29 02:30 +0200",
    ]


def test_a_daily_job_runs_once_on_the_day_the_clock_goes_back() -> None:
    # A13
    assert local_slots("30 2 * * *", "Europe/Berlin", "2027-10-30", 3) == [
        "10-30 02:30 +0200",
        "10-31 02:30 +0200",
        "11-01 02:30 +0100",
    ]


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31"])
def test_every_half_hour_is_a_real_half_hour_through_both_changes(day: str) -> None:
    # A13
    base = dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC) - dt.timedelta(hours=3)
    found = preview(rule("*/30 * * * *", "Europe/Berlin"), base, 20)
    steps = {later - earlier for earlier, later in itertools.pairwise(found)}
    assert steps == {dt.timedelta(minutes=30)}


def test_two_times_in_one_gap_meet_in_one_slot() -> None:
    # A13
    assert local_slots("0,30 2 * * *", "Europe/Berlin", "2027-03-28", 2) == [
        "03-28 03:00 +0200",
        "03-29 02:00 +0200",
    ]
    # ... also with a time that is named right behind the gap.
    assert local_slots("0 2,3,4 * * *", "Europe/Berlin", "2027-03-28", 3) == [
        "03-28 03:00 +0200",
        "03-28 04:00 +0200",
        "03-29 02:00 +0200",
    ]


def test_a_step_in_the_hour_shows_the_times_of_the_clock_on_the_wall() -> None:
    # A13
    assert local_slots("0 */2 * * *", "Europe/Berlin", "2027-03-28", 3) == [
        "03-28 00:00 +0100",
        "03-28 04:00 +0200",
        "03-28 06:00 +0200",
    ]
    assert local_slots("0 */2 * * *", "Europe/Berlin", "2027-10-31", 4) == [
        "10-31 00:00 +0200",
        "10-31 02:00 +0200",
        "10-31 02:00 +0100",
        "10-31 04:00 +0100",
    ]


def test_all_hours_repeat_however_they_are_written() -> None:
    # A13
    assert local_slots("0 0-23 * * *", "Europe/Berlin", "2027-10-31", 5) == local_slots(
        "0 * * * *", "Europe/Berlin", "2027-10-31", 5
    )


@pytest.mark.parametrize(
    ("text", "zone", "day", "slots"),
    [
        # Half an hour: 02:00 becomes 02:30, and in April 02:00 becomes 01:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["10-04 02:30 +1100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2027-04-04", ["04-04 01:45 +1100"]),
        (
            "*/30 * 4 4 *",
            "Australia/Lord_Howe",
            "2027-04-04",
            [
                "04-04 00:00 +1100",
                "04-04 00:30 +1100",
                "04-04 01:00 +1100",
                "04-04 01:30 +1100",
                "04-04 01:30 +1030",
                "04-04 02:00 +1030",
            ],
        ),
        # At midnight, forward to 01:00 and back to 23:00 of the day before.
        ("0 0 * * *", "America/Santiago", "2026-09-06", ["09-06 01:00 -0300", "09-07 00:00 -0300"]),
        (
            "30 23 * * *",
            "America/Santiago",
            "2026-04-04",
            ["04-04 23:30 -0300", "04-05 23:30 -0400"],
        ),
        ("0 0 * * *", "America/Sao_Paulo", "2017-10-15", ["10-15 01:00 -0200"]),
        # Back for Ramadan, forward after it.
        ("30 2 * * *", "Africa/Casablanca", "2026-02-15", ["02-15 02:30 +0100"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-22", ["03-22 03:00 +0100"]),
        # One minute past midnight, until 2011.
        ("0 0 * * *", "America/St_Johns", "2011-03-13", ["03-13 00:00 -0330"]),
        ("30 0 * * *", "America/St_Johns", "2011-03-13", ["03-13 01:01 -0230"]),
        ("30 1 * * *", "Europe/London", "2027-03-28", ["03-28 02:00 +0100"]),
        ("30 1 * * *", "Europe/London", "2027-10-31", ["10-31 01:30 +0100", "11-01 01:30 +0000"]),
        # The gap ends with the day: the run of Saturday is the first instant of Sunday.
        ("30 23 * * *", "America/Nuuk", "2027-03-27", ["03-28 00:00 -0100", "03-28 23:30 -0100"]),
        # Two hours at once.
        ("30 1 * * *", "Antarctica/Troll", "2027-03-28", ["03-28 03:00 +0200"]),
    ],
)
def test_known_changes_of_the_clock(text: str, zone: str, day: str, slots: list[str]) -> None:
    # A13; L9, faults A13
    assert local_slots(text, zone, day, len(slots)) == slots


def test_a_day_that_does_not_exist_has_no_run_and_gives_none_away() -> None:
    # A13
    for text, time in (("0 0 * * *", "00:00"), ("0 12 * * *", "12:00"), ("30 23 * * *", "23:30")):
        assert local_slots(text, "Pacific/Apia", "2011-12-29", 3) == [
            f"12-29 {time} -1000",
            f"12-31 {time} +1400",
            f"01-01 {time} +1400",
        ]


def test_the_next_run_is_strictly_after_the_base() -> None:
    # A13
    daily = rule("0 6 * * *", "UTC")
    six = dt.datetime(2026, 11, 18, 6, tzinfo=dt.UTC)
    microsecond = dt.timedelta(microseconds=1)
    assert next_after(daily, six - microsecond) == six
    assert next_after(daily, six) == six + dt.timedelta(days=1)
    assert next_after(daily, six + microsecond) == six + dt.timedelta(days=1)


NOW = dt.datetime(2026, 11, 18, tzinfo=dt.UTC)


def test_the_next_changes_are_known() -> None:
    # A13
    forward, back = dst_changes("Europe/Berlin", NOW)
    assert forward.instant == dt.datetime(2027, 3, 28, 1, tzinfo=dt.UTC)
    assert forward.local_before == dt.datetime(2027, 3, 28, 2)  # noqa: DTZ001
    assert forward.local_after == dt.datetime(2027, 3, 28, 3)  # noqa: DTZ001
    assert (forward.name_before, forward.name_after) == ("CET", "CEST")
    assert forward.goes_forward
    assert not back.goes_forward
    assert back.instant == dt.datetime(2027, 10, 31, 1, tzinfo=dt.UTC)


def test_a_change_at_the_instant_itself_is_not_next() -> None:
    # A13
    (forward,) = dst_changes("Europe/Berlin", NOW, 1)
    (following,) = dst_changes("Europe/Berlin", forward.instant, 1)
    assert following.instant > forward.instant


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Sao_Paulo"])
def test_a_zone_without_changes_has_none(zone: str) -> None:
    # A13
    assert dst_changes(zone, NOW) == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "30 2 * * *",
            [
                "Sun 28 Mar 2027: 02:30 does not exist in Europe/Berlin, runs once at 03:00 CEST",
                "Sun 31 Oct 2027: 02:30 happens twice in Europe/Berlin, "
                "runs the first time only (CEST)",
            ],
        ),
        (
            "0,30 2 * * *",
            [
                "Sun 28 Mar 2027: 02:00 and 02:30 do not exist in Europe/Berlin, "
                "run once at 03:00 CEST",
                "Sun 31 Oct 2027: 02:00 and 02:30 happen twice in Europe/Berlin, "
                "run the first time only (CEST)",
            ],
        ),
        (
            "*/10 2 * * *",
            [
                "Sun 28 Mar 2027: 02:00 to 02:50 do not exist in Europe/Berlin, "
                "run once at 03:00 CEST",
                "Sun 31 Oct 2027: 02:00 to 02:50 happen twice in Europe/Berlin, "
                "run the first time only (CEST)",
            ],
        ),
        (
            "*/30 * * * *",
            [
                "Sun 28 Mar 2027: the clock goes from 02:00 to 03:00 in Europe/Berlin, "
                "runs go on in real time",
                "Sun 31 Oct 2027: the clock goes from 03:00 to 02:00 in Europe/Berlin, "
                "runs go on in real time",
            ],
        ),
        (
            # Each instant at which the clock shows a named time: none here, two there.
            "0 */2 * * *",
            [
                "Sun 28 Mar 2027: 02:00 does not exist in Europe/Berlin, no run then",
                "Sun 31 Oct 2027: 02:00 happens twice in Europe/Berlin, runs twice",
            ],
        ),
        (
            "*/30 */2 * * *",
            [
                "Sun 28 Mar 2027: 02:00 and 02:30 do not exist in Europe/Berlin, no runs",
                "Sun 31 Oct 2027: 02:00 and 02:30 happen twice in Europe/Berlin, run twice",
            ],
        ),
        ("0 6 * * *", [None, None]),
        ("30 2 1 * *", [None, None]),
    ],
)
def test_a_change_is_explained_in_a_sentence(text: str, sentences: list[str | None]) -> None:
    # A13
    daily = rule(text, "Europe/Berlin")
    changes = dst_changes("Europe/Berlin", NOW)
    assert [explain_change(daily, change) for change in changes] == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        # Half an hour is no whole step of an hourly job, but of one that runs every half hour.
        (
            "0 * * * *",
            [None, "Sun 3 Oct 2027: 02:00 does not exist in Australia/Lord_Howe, no run then"],
        ),
        (
            "45 * * * *",
            ["Sun 4 Apr 2027: 01:45 happens twice in Australia/Lord_Howe, runs twice", None],
        ),
        (
            "*/30 * * * *",
            [
                "Sun 4 Apr 2027: the clock goes from 02:00 to 01:30 in Australia/Lord_Howe, "
                "runs go on in real time",
                "Sun 3 Oct 2027: the clock goes from 02:00 to 02:30 in Australia/Lord_Howe, "
                "runs go on in real time",
            ],
        ),
    ],
)
def test_a_change_by_half_an_hour_is_explained(text: str, sentences: list[str | None]) -> None:
    # A13
    changes = dst_changes("Australia/Lord_Howe", NOW)
    hourly = rule(text, "Australia/Lord_Howe")
    assert [explain_change(hourly, change) for change in changes] == sentences


def test_a_missing_day_is_explained() -> None:
    # A13
    (change,) = dst_changes("Pacific/Apia", dt.datetime(2011, 12, 1, tzinfo=dt.UTC), 1)
    assert (
        explain_change(rule("0 12 * * *", "Pacific/Apia"), change)
        == "Fri 30 Dec 2011 does not exist in Pacific/Apia, no run on that day"
    )


def test_a_change_outside_the_bounds_or_of_an_interval_needs_no_sentence() -> None:
    # A13
    (change,) = dst_changes("Europe/Berlin", NOW, 1)
    ended = Recurrence(kind="cron", expression="30 2 * * *", timezone="Europe/Berlin", end_at=NOW)
    every = Recurrence(kind="interval", expression="600", timezone="Europe/Berlin", anchor=NOW)
    assert explain_change(ended, change) is None
    assert explain_change(every, change) is None
