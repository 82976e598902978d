"""Reading cron expressions: what is understood, and how a mistake is named."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync_scheduler.errors import InvalidRule
from sync_scheduler.timing.cron import pattern_of, slots_from
from sync_scheduler.timing.zones import instant_of, seconds_of


def following(text: str, base: str, n: int = 4) -> list[str]:
    """The next slots in UTC, written short."""
    start = seconds_of(dt.datetime.fromisoformat(base).replace(tzinfo=dt.UTC))
    found = slots_from(text, "UTC", start)
    return [f"{instant_of(next(found)):%Y-%m-%d %H:%M:%S}" for _ in range(n)]


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("30 6 * * *", ["2026-11-18 06:30:00", "2026-11-19 06:30:00"]),
        ("30 6 * * * 15", ["2026-11-18 06:30:15", "2026-11-19 06:30:15"]),
        ("* * * * * */20", ["2026-11-18 00:00:20", "2026-11-18 00:00:40"]),
        ("@hourly", ["2026-11-18 01:00:00", "2026-11-18 02:00:00"]),
        ("@Daily", ["2026-11-19 00:00:00", "2026-11-20 00:00:00"]),
        ("@midnight", ["2026-11-19 00:00:00", "2026-11-20 00:00:00"]),
        ("@weekly", ["2026-11-22 00:00:00", "2026-11-29 00:00:00"]),
        ("@monthly", ["2026-12-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@yearly", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("@annually", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("0 9 ? * MON", ["2026-11-23 09:00:00", "2026-11-30 09:00:00"]),
        ("0 9 * JAN-mar *", ["2027-01-01 09:00:00", "2027-01-02 09:00:00"]),
        ("0 9 L * *", ["2026-11-30 09:00:00", "2026-12-31 09:00:00"]),
        ("0 9 1,L * ?", ["2026-11-30 09:00:00", "2026-12-01 09:00:00"]),
        ("0 9 29-L * *", ["2026-11-29 09:00:00", "2026-11-30 09:00:00"]),
        ("0 9 * * fri#2", ["2026-12-11 09:00:00", "2027-01-08 09:00:00"]),
        ("0 9 * * 7#1", ["2026-12-06 09:00:00", "2027-01-03 09:00:00"]),
        ("0 9 * * mon-tue#1", ["2026-12-01 09:00:00", "2026-12-07 09:00:00"]),
        ("0 9 * * L5", ["2026-11-27 09:00:00", "2026-12-25 09:00:00"]),
        ("0 9 * * friL", ["2026-11-27 09:00:00", "2026-12-25 09:00:00"]),
        # The 15th is a Sunday in November, so the Monday after it; a Tuesday in December.
        ("0 9 15W 11,12 *", ["2026-12-15 09:00:00", "2027-11-15 09:00:00"]),
        ("0 9 1W 5,8 *", ["2027-05-03 09:00:00", "2027-08-02 09:00:00"]),
        ("0 9 LW 1,2 *", ["2027-01-29 09:00:00", "2027-02-26 09:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        # Over the end of the field, with and without a step.
        ("0 22-1 * * *", ["2026-11-18 01:00:00", "2026-11-18 22:00:00"]),
        ("0 22-4/3 * * *", ["2026-11-18 01:00:00", "2026-11-18 04:00:00"]),
        ("0 9 * * sat-7", ["2026-11-21 09:00:00", "2026-11-22 09:00:00"]),
        ("0 9 * nov-feb/2 *", ["2026-11-18 09:00:00", "2026-11-19 09:00:00"]),
        # One value written as a range is that value, not the whole field.
        ("0 9-9 * * *", ["2026-11-18 09:00:00", "2026-11-19 09:00:00"]),
        ("10/25 3 * * *", ["2026-11-18 03:10:00", "2026-11-18 03:35:00"]),
        ("*,5 0 * * *", ["2026-11-18 00:01:00", "2026-11-18 00:02:00"]),
    ],
)
def test_an_expression_means_what_a_person_expects(text: str, slots: list[str]) -> None:
    # A12
    assert following(text, "2026-11-18T00:00:00", len(slots)) == slots


def test_two_restricted_day_fields_widen_each_other() -> None:
    # A12
    assert following("0 0 25 * mon", "2026-11-18T00:00:00") == [
        "2026-11-23 00:00:00",
        "2026-11-25 00:00:00",
        "2026-11-30 00:00:00",
        "2026-12-07 00:00:00",
    ]


def test_a_day_field_that_begins_with_a_star_narrows_the_other() -> None:
    # A12
    assert following("0 0 */2 * mon", "2026-11-18T00:00:00", 3) == [
        "2026-11-23 00:00:00",
        "2026-12-07 00:00:00",
        "2026-12-21 00:00:00",
    ]


def test_six_fields_read_weekdays_as_five_do() -> None:
    # A12
    assert following("0 9 * * 7 0", "2026-11-18T00:00:00") == following(
        "0 9 * * 7", "2026-11-18T00:00:00"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 25 * * *", "hour value '25' is outside 0-23."),
        ("60 * * * *", "minute value '60' is outside 0-59."),
        ("-1 * * * *", "minute value '-1' is not one of 0-59 or '*'."),
        ("5- * * * *", "minute value '' is not one of 0-59 or '*'."),
        ("1,,2 * * * *", "minute value is empty; write 0-59 or '*'."),
        ("0 0 0 * *", "day of month value '0' is outside 1-31."),
        ("0 0 0-5 * *", "day of month value '0' is outside 1-31."),
        ("0 0 * 13 *", "month value '13' is outside 1-12 or jan-dec."),
        ("0 0 * foo *", "month value 'foo' is not one of 1-12 or jan-dec or '*'."),
        ("0 0 * * 8", "day of week value '8' is outside 0-7 or sun-sat."),
        ("0 0 * * mon#6", "day of week value 'mon#6' is outside #1-#5."),
        ("*/0 * * * *", "minute step '0' is outside 1-60."),
        ("*/90 * * * *", "minute step '90' is outside 1-60."),
        ("*/x * * * *", "minute step 'x' is outside 1-60."),
        ("? * * * *", "minute value '?' is not one of 0-59 or '*'."),
        ("٣ * * * *", "minute value '٣' is not one of 0-59 or '*'."),
        ("H * * * *", "minute value 'h' is random; write the minute, or use jitter."),
        ("0 R(1-3) * * *", "hour value 'r(1-3)' is random; write the hour, or use jitter."),
        ("0 30 6 * * *", "hour value '30' is outside 0-23 (of six fields the last is the second)."),
        (
            "0 0 6 * * ?",
            "second value '?' is not one of 0-59 or '*' (of six fields the last is the second).",
        ),
        (
            "0 0 * * mon,fri#2",
            "day of week value 'mon,fri#2' mixes plain days with '#' or 'L' days; "
            "write two schedules.",
        ),
        (
            "0 0 1,15W * *",
            "day of month value '1,15w' mixes 'W' with other days; write one 'W' alone.",
        ),
        ("0 0 32W * *", "day of month value '32' is outside 1-31."),
        (
            "* * * *",
            "cron expression '* * * *' has 4 fields; write 5 (minute hour day month weekday) "
            "or 6 with the second last.",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field_and_value(text: str, sentence: str) -> None:
    # A12
    with pytest.raises(InvalidRule) as caught:
        pattern_of(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ["", "   ", "@reboot", "@", "0 6 * * * 0 2027", "\x00 * * * *"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    # A12
    with pytest.raises(InvalidRule):
        pattern_of(text)


@pytest.mark.parametrize(
    "text", ["0 0 31 2 *", "0 0 30,31 feb *", "0 0 31 4,6,9,11 *", "0 0 31 2 * 5"]
)
def test_an_expression_that_never_fires_is_refused(text: str) -> None:
    # A12
    with pytest.raises(InvalidRule, match="never fires"):
        pattern_of(text)


def test_an_overlong_expression_is_refused_before_it_is_read() -> None:
    # A12
    with pytest.raises(InvalidRule, match="201 characters long, at most 200"):
        pattern_of(",".join(["1"] * 101))


def test_the_longest_list_that_is_allowed_is_read() -> None:
    # A12
    text = ",".join(["0-59"] * 38) + " * * * *"
    assert len(text) <= 200
    assert pattern_of(text).minutes == tuple(range(60))


@settings(deadline=None, max_examples=300)
@given(
    text=st.one_of(
        st.text(max_size=210),
        st.lists(
            st.text("0123456789*/-,#?LWhr@ monfrijanfeb", min_size=1, max_size=8),
            min_size=5,
            max_size=6,
        ).map(" ".join),
    )
)
def test_whatever_is_written_is_read_or_refused_in_a_sentence(text: str) -> None:
    # A12
    try:
        pattern = pattern_of(text)
    except InvalidRule as error:
        assert str(error).endswith(".")
    else:
        assert pattern.first_from(0) is not None
