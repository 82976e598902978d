"""Policies: what becomes of slots that are due, and that nothing becomes of none of them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync_scheduler.timing import slots
from sync_scheduler.timing.policies import (
    Decision,
    Dropped,
    Reason,
    Skipped,
    decide,
    normalise_misfire,
    normalise_overlap,
)
from sync_scheduler.timing.rules import Recurrence

NOW = dt.datetime(2026, 11, 18, 8, 0, 30, tzinfo=dt.UTC)
GRACE = dt.timedelta(seconds=60)
MINUTE = dt.timedelta(minutes=1)
EIGHT = dt.datetime(2026, 11, 18, 8, tzinfo=dt.UTC)
MINUTELY = Recurrence(kind="cron", expression="* * * * *")
HOURLY = Recurrence(kind="cron", expression="0 * * * *")


def decision(
    r: Recurrence,
    due: dt.datetime,
    misfire: str = "skip",
    max_catch_up: int = 100,
    now: dt.datetime = NOW,
    grace: dt.timedelta = GRACE,
    skip_rows: int = 100,
) -> Decision:
    return decide(
        r,
        due=due,
        now=now,
        misfire=misfire,
        max_catch_up=max_catch_up,
        grace=grace,
        skip_rows=skip_rows,
    )


@pytest.mark.parametrize("misfire", ["skip", "catch_up_one", "catch_up_all"])
def test_a_slot_on_time_runs_under_every_policy(misfire: str) -> None:
    # A4
    found = decision(HOURLY, EIGHT, misfire)
    assert found == Decision(
        run=(EIGHT,),
        skipped=(),
        dropped=None,
        next_slot=EIGHT + dt.timedelta(hours=1),
        watermark=EIGHT,
    )


@pytest.mark.parametrize("misfire", ["skip", "catch_up_one", "catch_up_all"])
def test_a_change_of_leader_loses_no_slot_of_every_second(misfire: str) -> None:
    # A2
    seconds = Recurrence(kind="cron", expression="* * * * * *")
    due = NOW - dt.timedelta(seconds=7)
    found = decision(seconds, due, misfire)
    assert found.run == tuple(due + dt.timedelta(seconds=number) for number in range(8))
    assert found.skipped == ()


def test_the_grace_itself_is_still_on_time() -> None:
    # A4
    assert decision(HOURLY, EIGHT, now=EIGHT + GRACE).run == (EIGHT,)
    late = decision(HOURLY, EIGHT, now=EIGHT + GRACE + dt.timedelta(microseconds=1))
    assert late.run == ()
    assert late.skipped == (Skipped(slot=EIGHT, reason=Reason.MISFIRE),)


def test_skip_jumps_to_the_next_future_slot_and_says_why() -> None:
    # A4
    found = decision(MINUTELY, EIGHT - 5 * MINUTE)
    assert found.run == (EIGHT,)
    assert [skipped.slot for skipped in found.skipped] == [
        EIGHT - n * MINUTE for n in (5, 4, 3, 2, 1)
    ]
    assert {skipped.reason for skipped in found.skipped} == {Reason.MISFIRE}
    assert found.dropped is None
    assert found.next_slot == EIGHT + MINUTE
    assert found.watermark == EIGHT


def test_catch_up_one_runs_the_newest_missed_slot() -> None:
    # A4
    found = decision(MINUTELY, EIGHT - 5 * MINUTE, "catch_up_one")
    assert found.run == (EIGHT - MINUTE, EIGHT)
    assert [skipped.slot for skipped in found.skipped] == [EIGHT - n * MINUTE for n in (5, 4, 3, 2)]


def test_catch_up_all_runs_them_all_oldest_first() -> None:
    # A4
    found = decision(MINUTELY, EIGHT - 5 * MINUTE, "catch_up_all")
    assert found.run == tuple(EIGHT - n * MINUTE for n in (5, 4, 3, 2, 1, 0))
    assert found.skipped == ()
    assert found.dropped is None


def test_catch_up_all_stops_at_its_limit_with_the_newest() -> None:
    # A4
    found = decision(MINUTELY, EIGHT - 5 * MINUTE, "catch_up_all", max_catch_up=2)
    assert found.run == tuple(EIGHT - n * MINUTE for n in (2, 1, 0))
    assert found.skipped == tuple(
        Skipped(slot=EIGHT - n * MINUTE, reason=Reason.CATCH_UP_LIMIT) for n in (5, 4, 3)
    )


@pytest.mark.parametrize("misfire", ["whatever", "", "SKIP", "None"])
def test_an_unknown_policy_is_skip(misfire: str) -> None:
    # A11
    assert decision(MINUTELY, EIGHT - 5 * MINUTE, misfire) == decision(MINUTELY, EIGHT - 5 * MINUTE)
    assert normalise_misfire(misfire) == "skip"
    assert normalise_overlap(misfire) == "skip"
    assert normalise_overlap(None) == "skip"


def test_known_policies_keep_their_names() -> None:
    # A11
    assert [normalise_overlap(name) for name in ("skip", "queue", "concurrent")] == [
        "skip",
        "queue",
        "concurrent",
    ]
    assert [normalise_misfire(name) for name in ("skip", "catch_up_one", "catch_up_all")] == [
        "skip",
        "catch_up_one",
        "catch_up_all",
    ]


@pytest.mark.parametrize(
    ("misfire", "run", "skipped", "reason"),
    [
        ("skip", 0, 100, Reason.MISFIRE),
        ("catch_up_one", 1, 99, Reason.MISFIRE),
        ("catch_up_all", 100, 0, Reason.CATCH_UP_LIMIT),
    ],
)
@pytest.mark.parametrize(
    "recurrence",
    [
        Recurrence(kind="cron", expression="* * * * * *", timezone="Europe/Berlin"),
        Recurrence(kind="interval", expression="1", anchor=NOW - dt.timedelta(days=900)),
    ],
)
def test_a_year_without_anybody_leaves_a_hundred_rows_and_one_record(
    recurrence: Recurrence, misfire: str, run: int, skipped: int, reason: Reason
) -> None:
    # A4
    due = NOW - dt.timedelta(days=365)
    found = decision(recurrence, due, misfire)
    on_time = 61
    missed = 365 * 86_400 + 1 - on_time
    assert len(found.run) == run + on_time
    assert len(found.skipped) == skipped
    oldest_kept = NOW - dt.timedelta(seconds=60 + 100)
    assert found.dropped == Dropped(
        first=due,
        last=oldest_kept - dt.timedelta(seconds=1),
        count=missed - 100,
        reason=reason,
    )
    assert found.watermark == NOW
    assert found.next_slot == NOW + dt.timedelta(seconds=1)


def test_nothing_is_due_yet() -> None:
    # A13
    found = decision(HOURLY, EIGHT + dt.timedelta(hours=1))
    assert (found.run, found.skipped, found.dropped, found.watermark) == ((), (), None, None)
    assert found.next_slot == EIGHT + dt.timedelta(hours=1)


def test_a_stale_due_instant_is_no_slot_and_does_not_run() -> None:
    # A3
    stale = EIGHT - dt.timedelta(minutes=90)
    found = decision(HOURLY, stale, "catch_up_all")
    assert found.run == (EIGHT - dt.timedelta(hours=1), EIGHT)
    only_stale = decision(HOURLY, EIGHT + dt.timedelta(seconds=10))
    assert (only_stale.run, only_stale.watermark) == ((), None)


def test_once_that_was_missed_follows_its_policy_and_ends() -> None:
    # A4
    missed = EIGHT - dt.timedelta(hours=2)
    single = Recurrence(kind="once", expression=missed.isoformat())
    assert decision(single, missed).skipped == (Skipped(slot=missed, reason=Reason.MISFIRE),)
    caught_up = decision(single, missed, "catch_up_one")
    assert caught_up.run == (missed,)
    assert caught_up.next_slot is None
    assert caught_up.watermark == missed


def test_a_rule_that_has_ended_has_no_next_slot() -> None:
    # A12
    ended = Recurrence(kind="cron", expression="0 * * * *", end_at=EIGHT)
    found = decision(ended, EIGHT)
    assert found.run == (EIGHT,)
    assert found.next_slot is None


def test_no_rows_at_all_may_be_asked_for() -> None:
    # A4
    found = decision(MINUTELY, EIGHT - 5 * MINUTE, skip_rows=0)
    assert found.skipped == ()
    assert found.dropped == Dropped(
        first=EIGHT - 5 * MINUTE, last=EIGHT - MINUTE, count=5, reason=Reason.MISFIRE
    )
    assert found.watermark == EIGHT


def test_a_grace_of_days_on_every_second_is_bounded() -> None:
    # A4
    seconds = Recurrence(kind="interval", expression="1", anchor=NOW - dt.timedelta(days=900))
    due = NOW - dt.timedelta(days=5)
    found = decision(seconds, due, grace=dt.timedelta(days=30))
    assert len(found.run) == 10_000
    assert found.dropped is not None
    assert len(found.run) + len(found.skipped) + found.dropped.count == 5 * 86_400 + 1


@settings(deadline=None, max_examples=200)
@given(
    text=st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 * * mon", "0 */3 * * *"]),
    outage=st.timedeltas(dt.timedelta(), dt.timedelta(days=4)),
    misfire=st.sampled_from(["skip", "catch_up_one", "catch_up_all"]),
    max_catch_up=st.integers(1, 200),
    grace=st.timedeltas(dt.timedelta(), dt.timedelta(hours=3)),
    skip_rows=st.integers(0, 200),
)
def test_every_slot_gets_exactly_one_outcome(
    text: str,
    outage: dt.timedelta,
    misfire: str,
    max_catch_up: int,
    grace: dt.timedelta,
    skip_rows: int,
) -> None:
    # A15
    recurrence = Recurrence(kind="cron", expression=text, timezone="Europe/Berlin")
    now = dt.datetime(2027, 3, 29, 8, 0, 30, tzinfo=dt.UTC)
    due = slots.first_from(recurrence, now - outage)
    assert due is not None
    found = decision(recurrence, due, misfire, max_catch_up, now, grace, skip_rows)
    before = due - dt.timedelta(microseconds=1)
    wanted = slots.upcoming(recurrence, before, now, 100_000)
    single = sorted([*found.run, *(skipped.slot for skipped in found.skipped)])
    dropped = found.dropped.count if found.dropped else 0
    assert single == wanted[dropped:]
    if found.dropped is not None:
        assert (found.dropped.first, found.dropped.last) == (wanted[0], wanted[dropped - 1])
    assert list(found.run) == sorted(found.run)
    assert [skipped.slot for skipped in found.skipped] == sorted(s.slot for s in found.skipped)
    assert {slot for slot in wanted if now - slot <= grace} <= set(found.run)
    assert len(found.skipped) <= skip_rows
    assert found.watermark == (wanted[-1] if wanted else None)
    assert found.next_slot is not None
    assert found.next_slot > now
