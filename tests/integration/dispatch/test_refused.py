"""Schedules whose Runs the database or the codec refuses: passed over in the end, at their cost."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import Settings

from sync_scheduler import cron, signals
from sync_scheduler.dispatch.term import Term
from sync_scheduler.dispatch.tick import Ticked, tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.models import DeadLetter, Run, Schedule
from tests.integration.dispatch.leading import lead
from tests.testapp import codecs, jobs

pytestmark = pytest.mark.django_db(transaction=True)

SLOT = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)
NOW = SLOT + dt.timedelta(seconds=1)
NEXT = SLOT + dt.timedelta(minutes=1)


def make(name: str, **options: object) -> Schedule:
    rule = cron("* * * * *", tz="UTC")
    job = jobs.mark if "input" in options else jobs.noop
    schedule = Schedule.objects.register(name, job=job, rule=rule, **options).schedule
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=SLOT)
    return schedule


def fail_often(*names: str) -> None:
    """As if they had failed four times; the next failure is the last one."""
    Schedule.objects.filter(name__in=names).update(failures=4)


def runs(name: str) -> list[tuple[dt.datetime | None, str]]:
    return list(Run.objects.filter(schedule_name=name).values_list("slot", "status"))


@contextlib.contextmanager
def refusing(table: str, column: str, value: str) -> Iterator[None]:
    """The database refuses rows of the table that hold this value."""
    checked, name = f"sync_scheduler_{table}", f"refused_{table}"
    create = f"ALTER TABLE {checked} ADD CONSTRAINT {name} CHECK ({column} <> '{value}')"
    drop = f"ALTER TABLE {checked} DROP CONSTRAINT {name}"
    if connection.vendor == "sqlite":
        create = (
            f"CREATE TRIGGER {name} BEFORE INSERT ON {checked} WHEN NEW.{column} = '{value}'"
            " BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        drop = f"DROP TRIGGER {name}"
    with connection.cursor() as cursor:
        cursor.execute(create)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(drop)


@pytest.fixture
def dispatch_failures() -> Iterator[list[tuple[str, bool]]]:
    """Which failures were told, and whether each was said to be the last."""
    told: list[tuple[str, bool]] = []

    def hear(schedule: str, dead_lettered: bool, **_: object) -> None:
        told.append((schedule, dead_lettered))

    signals.dispatch_failed.connect(hear)
    yield told
    signals.dispatch_failed.disconnect(hear)


def tick_once(term: Term) -> Ticked:
    return tick(term, NOW)


def test_a_slot_whose_run_is_refused_is_passed_over_after_five_failures() -> None:  # A8
    bad, term, now = make("refused"), lead(), NOW
    with refusing("run", "schedule_name", "refused"):
        for _ in range(5):
            tick(term, now)
            bad.refresh_from_db()
            now = max(now, bad.retry_dispatch_at or now)
        assert (bad.next_run_at, bad.last_slot, bad.failures) == (NEXT, SLOT, 0)
        letter = DeadLetter.objects.get()
        assert (letter.schedule_name, letter.slot, letter.run_id) == ("refused", SLOT, None)
        assert letter.reason == "dispatch_failed"
        assert "refused" in letter.error

    tick(term, NEXT)
    assert runs("refused") == [(NEXT, "submitted")]


def test_a_refused_run_costs_neither_those_beside_it_nor_those_behind_it(
    settings: Settings, dispatch_failures: list[tuple[str, bool]]
) -> None:  # A8, A14
    settings.SYNC_SCHEDULER = {"DISPATCH_BATCH": 2}
    make("refused")
    innocent, behind = make("innocent"), make("behind")
    Schedule.objects.filter(pk=innocent.pk).update(job="tests.gone")
    fail_often("refused", "innocent")
    with refusing("run", "schedule_name", "refused"):
        done = tick_once(lead())

    assert (done.dispatched, done.failed) == (1, 2)
    assert runs(behind.name) == [(SLOT, "submitted")]
    assert runs("innocent") == [(SLOT, "failed")]
    letters = DeadLetter.objects.order_by("schedule_name")
    assert [letter.schedule_name for letter in letters] == ["innocent", "refused"]
    assert letters[0].run_id is not None
    assert sorted(dispatch_failures) == [("innocent", True), ("refused", True)]


def test_a_slot_that_cannot_even_be_kept_waits_and_is_tried_again(
    dispatch_failures: list[tuple[str, bool]],
) -> None:  # A8, A14
    bad = make("refused")
    fail_often("refused")
    with (
        refusing("run", "schedule_name", "refused"),
        refusing("deadletter", "schedule_name", "refused"),
    ):
        tick_once(lead())

    bad.refresh_from_db()
    assert (bad.next_run_at, bad.failures) == (SLOT, 5)
    assert bad.retry_dispatch_at is not None
    assert bad.retry_dispatch_at > NOW
    assert dispatch_failures == [("refused", False)]


def test_an_old_epoch_passes_nothing_over() -> None:  # A2, A8
    bad = make("refused")
    fail_often("refused")
    old = lead("old")
    lead("new")
    with refusing("run", "schedule_name", "refused"), pytest.raises(LeadershipLost):
        tick_once(old)
    bad.refresh_from_db()
    assert (bad.next_run_at, bad.failures) == (SLOT, 4)
    assert not DeadLetter.objects.exists()


def test_an_input_that_cannot_be_encoded_costs_only_its_schedule(
    settings: Settings,
) -> None:  # A8, A14
    bad = make("refused", input={"name": codecs.UNSPEAKABLE})
    good = make("fine", input={"name": "a word"})
    settings.SYNC_SCHEDULER = {"PAYLOAD_CODEC": f"{codecs.__name__}.Picky"}
    term = lead()
    tick_once(term)
    assert runs(good.name) == [(SLOT, "submitted")]
    bad.refresh_from_db()
    assert (bad.failures, bad.next_run_at) == (1, SLOT)

    Schedule.objects.filter(pk=bad.pk).update(failures=4, retry_dispatch_at=None)
    tick_once(term)
    bad.refresh_from_db()
    assert bad.next_run_at == NEXT
    assert DeadLetter.objects.get().schedule_name == "refused"


def test_what_the_database_says_about_a_refused_row_shows_no_input() -> None:  # A8
    make("refused", input={"name": "canary-4711"})
    with refusing("run", "schedule_name", "refused"):
        tick_once(lead())
    assert "canary" not in Schedule.objects.get().error
