"""Histories that the model found, kept as they were: each once broke a promise."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.models import Run, Schedule
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db
MINUTE = dt.timedelta(minutes=1)


def every_minute() -> Schedule:
    rule = cron("* * * * *", tz="UTC", misfire="catch_up_all", overlap="concurrent")
    return Schedule.objects.register("minutely", job=jobs.noop, rule=rule).schedule


def test_resuming_after_the_pause_has_run_out_makes_up_for_nothing() -> None:  # A17
    now = clock.now().replace(second=30, microsecond=0)
    schedule = every_minute()
    begin = now.replace(second=0) - 20 * MINUTE
    Schedule.objects.update(next_run_at=begin)
    schedule.pause(until=now - 10 * MINUTE)

    with clock.shifted(now - clock.now()):
        schedule.resume()

    assert schedule.next_run_at == begin + 11 * MINUTE, "what came due after the pause is kept"
    assert schedule.last_slot == begin + 10 * MINUTE, "a clock set back must not bring it back"
    record = Run.objects.get()
    assert (record.status, record.reason) == ("skipped", "paused")
    assert (record.slot, record.meta["count"]) == (begin + 10 * MINUTE, 11)


def test_a_pause_that_has_run_out_brings_back_no_slot_of_a_time_when_it_was_off() -> None:  # A17
    now = clock.now().replace(second=30, microsecond=0)
    schedule = every_minute()
    due = now.replace(second=0)
    Schedule.objects.update(next_run_at=due - 20 * MINUTE)
    schedule.pause(until=now - 10 * MINUTE)
    schedule.enabled = False
    schedule.save()
    schedule.enabled = True
    schedule.save()
    Schedule.objects.update(next_run_at=due)

    tick(lead(), now)

    assert [run.slot for run in Run.objects.all()] == [due]
