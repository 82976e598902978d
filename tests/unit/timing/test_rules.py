"""Rules: what may be declared, what is refused, and with which sentence."""

from __future__ import annotations

import dataclasses
import datetime as dt
import zoneinfo
from typing import Any

import pytest

from sync_scheduler.errors import InvalidRule, SchedulerError
from sync_scheduler.timing.description import describe
from sync_scheduler.timing.rules import Recurrence, Rule, cron, every, once
from sync_scheduler.timing.slots import next_after, preview

NOW = dt.datetime(2026, 11, 18, 8, 0, 0, 483_920, tzinfo=dt.UTC)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def complete(rule: Rule) -> Recurrence:
    return rule.recurrence(default_timezone="Europe/Berlin", anchor=NOW)


def test_what_was_not_said_is_none() -> None:
    # A12
    rule = cron("0 6 * * *")
    said = {field.name: getattr(rule, field.name) for field in dataclasses.fields(rule)}
    assert said.pop("kind") == "cron"
    assert said.pop("expression") == "0 6 * * *"
    assert set(said.values()) == {None}


def test_all_options_are_kept_as_they_were_said() -> None:
    # A12
    rule = cron(
        "0 6 * * *",
        tz="Europe/Berlin",
        name="daily",
        input={"region": "eu"},
        misfire="catch_up_one",
        max_catch_up=5,
        misfire_grace=dt.timedelta(minutes=2),
        overlap="queue",
        jitter=10,
        start_at=NOW,
        end_at=NOW + dt.timedelta(days=9),
        enabled=False,
        meta={"team": "billing"},
    )
    assert (rule.timezone, rule.name, rule.input) == ("Europe/Berlin", "daily", {"region": "eu"})
    assert (rule.misfire, rule.max_catch_up, rule.misfire_grace) == ("catch_up_one", 5, 120.0)
    assert (rule.overlap, rule.jitter, rule.enabled) == ("queue", 10.0, False)
    assert (rule.start_at, rule.end_at) == (NOW, NOW + dt.timedelta(days=9))
    assert rule.meta == {"team": "billing"}


def test_a_rule_without_a_zone_takes_the_projects() -> None:
    # A12
    assert complete(cron("0 6 * * *")).timezone == "Europe/Berlin"
    assert complete(cron("0 6 * * *", tz="Asia/Tokyo")).timezone == "Asia/Tokyo"
    assert complete(cron("0 6 * * *", tz=zoneinfo.ZoneInfo("Asia/Tokyo"))).timezone == "Asia/Tokyo"
    assert complete(cron("0 6 * * *", tz=dt.UTC)).timezone == "UTC"


def test_the_spaces_of_an_expression_do_not_make_it_another_rule() -> None:
    # A3
    assert cron("  0   6 * *\t* ") == cron("0 6 * * *")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (every(minutes=10), "600"),
        (every(seconds=0.5), "0.5"),
        (every(dt.timedelta(hours=1)), "3600"),
        (every(hours=1, minutes=30), "5400"),
        (every(days=2), "172800"),
        (every(seconds=1.25), "1.25"),
        (every(dt.timedelta(microseconds=1_000_001)), "1.000001"),
    ],
)
def test_an_interval_is_kept_as_the_shortest_decimal(rule: Rule, text: str) -> None:
    # A12
    assert rule.expression == text
    assert complete(rule).expression == text


def test_an_interval_without_a_start_first_runs_one_period_after_it_was_made() -> None:
    # A12
    recurrence = complete(every(minutes=10))
    first = dt.datetime(2026, 11, 18, 8, 10, tzinfo=dt.UTC)
    # Even if the clock that asks is a little behind the one that registered.
    assert next_after(recurrence, NOW - dt.timedelta(seconds=5)) == first
    assert next_after(recurrence, NOW) == first


def test_an_interval_with_a_start_first_runs_at_the_start() -> None:
    # A12
    start = dt.datetime(2027, 1, 1, 8, 0, 0, 250_000, tzinfo=dt.UTC)
    for rule in (every(minutes=30, start=start), every(minutes=30, start_at=start)):
        assert preview(complete(rule), NOW, 2) == [start, start + dt.timedelta(minutes=30)]


def test_a_start_and_a_later_bound_keep_the_grid_of_the_start() -> None:
    # A12
    start = dt.datetime(2027, 1, 1, 8, 0, tzinfo=dt.UTC)
    bound = dt.datetime(2027, 1, 5, 9, 10, tzinfo=dt.UTC)
    rule = every(hours=1, start=start, start_at=bound)
    assert next_after(complete(rule), NOW) == dt.datetime(2027, 1, 5, 10, tzinfo=dt.UTC)


def test_a_naive_time_is_taken_on_the_wall_of_the_zone_of_the_same_call() -> None:
    # A12
    wall = dt.datetime(2026, 11, 23, 8)  # noqa: DTZ001
    instant = dt.datetime(2026, 11, 23, 7, tzinfo=dt.UTC)
    assert once(wall, tz="Europe/Berlin").expression == instant.isoformat()
    assert every(hours=1, start=wall, tz="Europe/Berlin").anchor == instant
    assert cron("0 6 * * *", tz="Europe/Berlin", start_at=wall).start_at == instant


def test_a_naive_time_that_does_not_exist_or_exists_twice_follows_the_rule_of_cron() -> None:
    # A13
    gap, fold = dt.datetime(2027, 3, 28, 2, 30), dt.datetime(2027, 10, 31, 2, 30)  # noqa: DTZ001
    assert once(gap, tz="Europe/Berlin").expression == "2027-03-28T01:00:00+00:00"
    assert once(fold, tz="Europe/Berlin").expression == "2027-10-31T00:30:00+00:00"


def test_a_naive_time_may_say_which_of_two_it_means() -> None:
    # A13
    for wall, offset in [
        (dt.datetime(2027, 10, 31, 2, 30), "01:30"),  # noqa: DTZ001  # twice
        (dt.datetime(2027, 3, 28, 2, 30), "01:00"),  # noqa: DTZ001  # not at all
        (dt.datetime(2027, 3, 28, 3, 30), "01:30"),  # noqa: DTZ001  # once
        (dt.datetime(2027, 10, 31, 3, 0), "02:00"),  # noqa: DTZ001  # once, after the second
    ]:
        rule = once(wall.replace(fold=1), tz="Europe/Berlin")
        assert rule.expression == f"{wall:%Y-%m-%d}T{offset}:00+00:00"


@pytest.mark.parametrize(
    "make",
    [
        lambda naive: once(naive),
        lambda naive: every(hours=1, start=naive),
        lambda naive: cron("0 6 * * *", start_at=naive),
        lambda naive: cron("0 6 * * *", end_at=naive),
        lambda naive: Recurrence(kind="cron", expression="0 6 * * *", end_at=naive),
    ],
)
def test_a_naive_time_without_a_zone_is_refused(make: Any) -> None:
    # A12
    with pytest.raises(InvalidRule, match="2026-11-23T08:00:00 has no time zone; give an aware"):
        make(dt.datetime(2026, 11, 23, 8))  # noqa: DTZ001


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("end", [dt.datetime.min, dt.datetime.max])  # noqa: DTZ901
def test_a_time_that_not_every_clock_can_show_is_refused(end: dt.datetime, zone: str) -> None:
    # A12
    outside = f"{end.isoformat()}.* is outside the years 2 to 9998"
    for at in (end, end.replace(tzinfo=dt.UTC), end.replace(tzinfo=zoneinfo.ZoneInfo(zone))):
        with pytest.raises(InvalidRule, match=outside):
            once(at, tz=zone)
        with pytest.raises(InvalidRule, match=outside):
            every(hours=1, start=at, tz=zone)
        with pytest.raises(InvalidRule, match=outside):
            cron("0 6 * * *", tz=zone, start_at=at)
        with pytest.raises(InvalidRule, match=outside):
            cron("0 6 * * *", tz=zone, end_at=at)
    with pytest.raises(InvalidRule, match=outside):
        Recurrence(kind="once", expression=end.replace(tzinfo=dt.UTC).isoformat())


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize(
    "bound", [dt.datetime(2, 1, 2, tzinfo=dt.UTC), dt.datetime(9998, 12, 30, tzinfo=dt.UTC)]
)
def test_every_other_time_can_be_described_in_every_zone(bound: dt.datetime, zone: str) -> None:
    # A12
    assert str(bound.year) in describe(complete(once(bound, tz=zone)))
    assert str(bound.year) in describe(complete(cron("0 6 * * *", tz=zone, start_at=bound)))
    assert str(bound.year) in describe(complete(cron("0 6 * * *", tz=zone, end_at=bound)))
    assert str(bound.year) in describe(complete(every(hours=1, tz=zone, start=bound)))


def test_once_remembers_the_zone_it_was_said_in() -> None:
    # A12
    rule = once(dt.datetime(2026, 11, 23, 8, tzinfo=BERLIN))
    assert (rule.expression, rule.timezone) == ("2026-11-23T07:00:00+00:00", "Europe/Berlin")
    assert once(NOW).timezone is None


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/passwd",
        "Europe/../Europe/Berlin",
        "europe/berlin ",
        "localtime",
        "",
        "x" * 65,
        "Europe/Berlin\x00",
        42,
    ],
)
def test_what_is_no_zone_is_refused(zone: Any) -> None:
    # A12
    with pytest.raises(InvalidRule, match="time zone"):
        cron("0 6 * * *", tz=zone)
    with pytest.raises(InvalidRule, match="time zone"):
        Recurrence(kind="cron", expression="0 6 * * *", timezone=zone)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: every(), "interval of 0 seconds is outside 0.01 seconds to 36525 days"),
        (lambda: every(seconds=-1), "interval of -1 seconds is outside"),
        (lambda: every(days=40_000), "is outside 0.01 seconds to 36525 days"),
        (lambda: every(seconds=float("nan")), "interval is not a usable number"),
        (lambda: every(seconds=float("inf")), "interval is not a usable number"),
        (lambda: every(10), "interval 10 has no unit; write every(seconds=10)"),  # type: ignore[arg-type]
        (lambda: every(minutes="5"), "interval is not a usable number"),  # type: ignore[arg-type]
        (lambda: cron(5), "cron expression 5 is not a text"),  # type: ignore[arg-type]
        (lambda: once("2026-11-23"), "at '2026-11-23' is not a datetime"),  # type: ignore[arg-type]
        (lambda: once(None), "once() has no instant"),  # type: ignore[arg-type]
        (lambda: cron("0 6 * * *", jitter=-1), "jitter -1 is not a number of seconds"),
        (lambda: cron("0 6 * * *", misfire_grace="1m"), "misfire_grace '1m' is not a number"),  # type: ignore[arg-type]
        (lambda: cron("0 6 * * *", max_catch_up=0), "max_catch_up 0 is not a number from 1 up"),
        (
            lambda: cron("0 6 * * *", start_at=NOW, end_at=NOW - dt.timedelta(days=1)),
            "is before start_at",
        ),
        (
            lambda: cron("0 6 * * *", start_at=NOW, end_at=NOW + dt.timedelta(hours=2)),
            "no slot lies between start_at",
        ),
        (
            lambda: every(
                hours=3,
                start=NOW,
                start_at=NOW + dt.timedelta(hours=1),
                end_at=NOW + dt.timedelta(hours=2),
            ),
            "no slot lies between start_at",
        ),
        (lambda: once(NOW, end_at=NOW - dt.timedelta(days=1)), "is outside start_at and end_at"),
        (lambda: Recurrence(kind="interval", expression="600"), "interval has no anchor"),
        (lambda: Recurrence(kind="interval", expression="1e3", anchor=NOW), "interval '1e3'"),
        (lambda: Recurrence(kind="interval", expression="-5", anchor=NOW), "interval '-5'"),
        (lambda: Recurrence(kind="once", expression="soon"), "instant 'soon' is not an ISO time"),
        (lambda: Recurrence(kind="once", expression="2026-11-23T07:00:00"), "has no time zone"),
        (lambda: Recurrence(kind="hourly", expression="1"), "kind 'hourly' is unknown"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_cannot_work_is_refused_in_one_sentence(make: Any, sentence: str) -> None:
    # A12
    with pytest.raises(InvalidRule) as caught:
        make()
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_refused_rule_is_a_scheduler_error_and_a_value_error() -> None:
    # A12
    with pytest.raises(SchedulerError):
        cron("nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        cron("nonsense")


def test_a_rule_that_has_ended_can_still_be_declared() -> None:
    # A3: code that says "until last January" must not stop the start-up.
    past = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert next_after(complete(cron("0 6 * * *", end_at=past)), NOW) is None
    assert next_after(complete(every(hours=1, end_at=past)), NOW) is None


def test_rules_are_values() -> None:
    # A3
    assert cron("0 6 * * *", tz="UTC") == cron("0 6 * * *", tz="UTC")
    assert hash(complete(cron("0 6 * * *"))) == hash(complete(cron("0 6 * * *")))
    with pytest.raises(dataclasses.FrozenInstanceError):
        cron("0 6 * * *").name = "x"  # type: ignore[misc]


def test_unknown_policies_are_left_to_be_read_as_skip() -> None:
    # A11
    rule = cron("0 6 * * *", misfire="whatever", overlap="whatever")
    assert (rule.misfire, rule.overlap) == ("whatever", "whatever")
