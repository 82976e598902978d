"""The database was restored from a backup of last week, and a scheduler starts on it."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.dispatch import sweep
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.models import Leader, Node, Run, Schedule, Term
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db

WEEK = dt.timedelta(days=7)


@pytest.fixture(autouse=True)
def _the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a minute may begin between two steps, and with it a slot that is on time."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)


def as_of_last_week(**options: str) -> Schedule:
    """A schedule, a leader, a node and a Run as the backup has them."""
    then = clock.now() - WEEK
    rule = cron("* * * * *", tz="UTC")
    schedule = Schedule.objects.register("minutely", job=jobs.noop, rule=rule, **options).schedule
    slot = then.replace(second=0, microsecond=0)
    Schedule.objects.filter(pk=schedule.pk).update(
        next_run_at=slot + dt.timedelta(minutes=1), last_slot=slot
    )
    Leader.objects.create(namespace="default", epoch=7, holder="gone", expires_at=then)
    Term.objects.create(epoch=7, holder="gone", started_at=then)
    Node.objects.create(name="gone", host="h", pid=1, started_at=then, heartbeat_at=then)
    Run.objects.create(
        job="tests.noop",
        run_at=then,
        submitted_at=then,
        started_at=then,
        status="running",
        node="gone",
        attempt=1,
        token=1,
    )
    return schedule


def watched_for(seconds: float) -> sweep.Contact:
    contact = sweep.Contact()
    contact.touch()
    contact._since = clock.boot_seconds() - seconds
    return contact


def test_what_was_running_then_is_taken_up_and_what_was_missed_follows_its_policy() -> None:
    # A4, C6; H-4
    schedule = as_of_last_week()
    term = lead("new")
    assert term.epoch == 8
    assert sweep.sweep(clock.now(), watched_for(60)).taken_back == 1
    assert Run.objects.get(trigger="submit").status == "submitted"
    tick(term, clock.now())

    slots = Run.objects.filter(schedule_id=schedule.pk)
    # At most the one that is on time runs; the week is on record, and bounded.
    assert slots.exclude(status="skipped").count() <= 1
    assert slots.count() <= 102
    assert slots.filter(meta__has_key="count").count() == 1


def test_a_storm_of_catching_up_is_avoided_by_pausing_and_resuming() -> None:
    # A17; H-4, L13
    schedule = as_of_last_week(misfire="catch_up_all", overlap="concurrent")
    schedule.pause(note="restored from a backup")
    schedule.resume()
    tick(lead("new"), clock.now())

    assert not Run.objects.filter(schedule_id=schedule.pk).exclude(status="skipped").exists()
    schedule.refresh_from_db()
    assert schedule.next_run_at is not None
    assert schedule.next_run_at > clock.now()
