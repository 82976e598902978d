"""What is large comes often together: no statement is longer than a server takes."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, DeadLetter, Run, Schedule
from sync_scheduler.store import outcomes
from sync_scheduler.store.claims import FACTS, Claim
from sync_scheduler.store.portions import portions
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

NOW = dt.datetime(2031, 5, 6, 7, 0, 1, tzinfo=dt.UTC)
# A hundred of these are more than MySQL and MariaDB take in one statement.
LARGE = {"name": "x" * 250_000}


def test_a_schedule_that_catches_up_with_a_large_input_stops_nobody() -> None:  # A6, A14
    rule = cron("* * * * *", tz="UTC")
    Schedule.objects.register(
        "large", job=jobs.mark, rule=rule, input=LARGE, misfire="catch_up_all"
    )
    Schedule.objects.register("small", job=jobs.noop, rule=rule)
    late = NOW.replace(second=0) - dt.timedelta(minutes=99)
    Schedule.objects.filter(name="large").update(next_run_at=late)
    Schedule.objects.filter(name="small").update(next_run_at=NOW)
    done = tick(lead(), NOW)

    assert (done.dispatched, done.failed, done.held_up) == (101, 0, 0)
    assert Run.objects.filter(schedule_name="large", status="submitted").count() == 100


def test_many_large_runs_are_submitted_together() -> None:  # B1
    jobs.mark.submit_many([LARGE] * 100)

    assert Run.objects.count() == 100


def test_many_long_tracebacks_are_recorded_together() -> None:  # B2, B11
    now = clock.now()
    values = {"job": "tests.noop", "status": "running", "node": "n", "started_at": now}
    Run.objects.bulk_create(Run(run_at=now, submitted_at=now, **values) for _ in range(700))
    endings = [
        outcomes.Ending(
            claim=Claim(*row),
            node="n",
            status=State.FAILED,
            outcome=Attempt.Outcome.FAILED,
            started_at=now,
            finished_at=now,
            error="e" * 30_000,
            traceback="t" * 30_000,
        )
        for row in Run.objects.values_list(*FACTS)
    ]

    assert len(outcomes.record(endings).accepted) == 700
    assert (Attempt.objects.count(), DeadLetter.objects.count()) == (700, 700)


def test_rows_are_cut_by_their_number_and_by_their_length() -> None:
    assert list(portions([])) == []
    assert list(portions([1, 1, 1], 2)) == [slice(0, 2), slice(2, 3)]
    assert list(portions([900_000, 10**9, 1, 600_000, 600_000])) == [
        slice(0, 1),
        slice(1, 2),
        slice(2, 4),
        slice(4, 5),
    ]
