"""A pause that is to be caught up with: one Run for all that passed, however it ends."""

from __future__ import annotations

import datetime as dt
from unittest import mock

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import schedules
from tests.integration.dispatch.leading import lead
from tests.integration.dispatch.test_tick import at, make, statuses

pytestmark = pytest.mark.django_db


def pause(schedule: Schedule, until: dt.datetime | None, *, catch_up: bool = True) -> None:
    schedule.pause(note="audit", by="ann", until=until, catch_up=catch_up)


def now_is(minutes: float) -> mock._patch[mock.MagicMock]:
    return mock.patch.object(clock, "now", return_value=at(minutes))


def test_the_newest_slot_of_the_pause_is_run_once_when_it_ends() -> None:  # A17
    schedule = make("until", at(0))
    pause(schedule, at(5.5))
    term = lead()
    tick(term, at(0.1))
    tick(term, at(3.1))
    assert statuses(schedule) == []
    assert schedules.earliest_retry(at(3.1)) == at(5.5)

    done = tick(term, at(5.6))

    assert done.dispatched == 1
    assert [status for _, status, _ in statuses(schedule)] == ["skipped"] * 5 + ["submitted"]
    assert statuses(schedule)[-1] == (5, "submitted", "")
    schedule.refresh_from_db()
    assert (schedule.paused_at, schedule.next_run_at) == (None, at(6))
    assert schedule.retry_dispatch_at is None


def test_a_slot_that_comes_due_with_the_end_of_the_pause_is_enough() -> None:  # A17
    schedule = make("both", at(0))
    pause(schedule, at(1.5))
    tick(lead(), at(2.1))

    assert statuses(schedule) == [
        (0, "skipped", "paused"),
        (1, "skipped", "paused"),
        (2, "submitted", ""),
    ]


def test_a_long_pause_never_ends_in_a_burst() -> None:  # A17
    schedule = make("long", at(0))
    pause(schedule, at(10_000))
    done = tick(lead(), at(10_000.2))

    assert done.dispatched == 1
    assert Run.objects.filter(status="submitted").count() == 1
    assert Run.objects.count() <= 103
    record = Run.objects.exclude(meta__count=None).get()
    assert record.meta["count"] + Run.objects.count() - 1 == 10_001


def test_resuming_by_hand_runs_the_newest_slot_and_nothing_else() -> None:  # A17
    schedule = make("by hand", at(0))
    pause(schedule, None)
    term = lead()
    tick(term, at(3.1))
    assert schedules.earliest_retry(at(3.1)) is not None
    with now_is(4.2):
        schedule.resume()
        assert not schedule.is_paused
    tick(term, at(4.3))

    assert [status for _, status, _ in statuses(schedule)] == ["skipped"] * 4 + ["submitted"]
    schedule.refresh_from_db()
    assert (schedule.paused_at, schedule.next_run_at) == (None, at(5))


def test_resuming_before_anything_passed_runs_nothing() -> None:  # A17
    schedule = make("early", at(0))
    pause(schedule, None)
    with now_is(-0.5):
        schedule.resume()
    schedule.refresh_from_db()
    assert (schedule.paused_at, schedule.retry_dispatch_at) == (None, None)
    assert schedule.next_run_at == at(0)
    assert not Run.objects.exists()


def test_a_pause_without_catching_up_runs_nothing_when_it_ends() -> None:  # A17
    schedule = make("skips", at(0))
    pause(schedule, at(1.5), catch_up=False)
    tick(lead(), at(1.6))
    assert statuses(schedule) == [(0, "skipped", "paused"), (1, "skipped", "paused")]


def test_pausing_again_without_catching_up_forgets_the_wish() -> None:  # A17
    schedule = make("again", at(0))
    pause(schedule, None)
    pause(schedule, at(1.5), catch_up=False)
    assert not schedule.holds_slots_back
    tick(lead(), at(1.6))
    assert Run.objects.filter(status="submitted").count() == 0


def test_an_edit_during_the_pause_keeps_the_wish() -> None:  # A17, A3
    schedule = make("edited", at(0), rule=cron("* * * * *", tz="UTC"))
    pause(schedule, at(3.5))
    schedule.max_catch_up = 7
    schedule.save()
    assert schedule.holds_slots_back
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=at(0))
    tick(lead(), at(3.6))
    assert statuses(schedule)[-1] == (3, "submitted", "")
