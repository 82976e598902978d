"""What a backfill would do, said without doing it."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sync_scheduler import KeyConflict, clock, every
from sync_scheduler.intake import backfill
from sync_scheduler.models import Run, Schedule
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = dt.timedelta(hours=1)


def hourly() -> tuple[Schedule, dt.datetime, dt.datetime]:
    """A schedule that has let pass five slots, and the range in which they lie."""
    start = (clock.now() - 5 * HOUR).replace(minute=0, second=0, microsecond=0)
    rule = every(hours=1, start=start - 24 * HOUR)
    schedule = Schedule.objects.register(
        "hourly", job=jobs.add, rule=rule, input={"a": 1, "b": 2}
    ).schedule
    return schedule, start, start + 4 * HOUR


def test_a_plan_only_reads_and_asks_as_often_for_many_slots_as_for_few() -> None:
    # A17
    schedule, start, _ = hourly()
    asked = []
    for hours in (0, 4):
        with CaptureQueriesContext(connection) as captured:
            gaps = backfill.plan(schedule, start, start + hours * HOUR)
        assert len(gaps) == hours + 1
        assert all(gap.is_open for gap in gaps)
        asked.append([query["sql"].split()[0] for query in captured.captured_queries])
    assert set(asked[0]) == {"SELECT"}
    assert asked[0] == asked[1]
    assert not Run.objects.exists()


def test_a_plan_names_the_slots_that_are_then_filled_and_those_that_have_been() -> None:
    # A17
    schedule, start, end = hourly()
    first = schedule.backfill(start, start + HOUR)
    planned = backfill.plan(schedule, start, end)
    assert [gap.run for gap in planned[:2]] == first
    assert [gap.is_open for gap in planned] == [False, False, True, True, True]
    filled = schedule.backfill(start, end)
    assert [run.slot for run in filled] == [gap.slot for gap in planned]
    assert [run.key for run in filled] == [gap.key for gap in planned]
    assert filled[:2] == first


def test_a_plan_refuses_what_the_backfill_would_refuse() -> None:
    # A17, B5
    schedule, start, end = hourly()
    schedule.backfill(start, start)
    schedule.input = {"a": 7, "b": 7}
    schedule.save()
    with pytest.raises(KeyConflict) as planned:
        backfill.plan(schedule, start, end)
    with pytest.raises(KeyConflict) as done:
        schedule.backfill(start, end)
    assert str(planned.value) == str(done.value)
    assert Run.objects.count() == 1
