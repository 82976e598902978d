"""Runs of jobs that nobody knows any more."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock
from sync_scheduler.models import DeadLetter, Node, Run
from sync_scheduler.store import strays

pytestmark = pytest.mark.django_db


def a_run(job: str, age: dt.timedelta) -> Run:
    then = clock.now() - age
    return Run.objects.create(job=job, run_at=then, submitted_at=then)


def a_worker(*jobs: str, silent: dt.timedelta = dt.timedelta()) -> Node:
    now = clock.now()
    return Node.objects.create(
        name=f"node-{len(jobs)}",
        host="h",
        pid=1,
        jobs=list(jobs),
        slots=4,
        started_at=now,
        heartbeat_at=now - silent,
    )


def test_a_run_that_no_living_worker_knows_is_a_dead_letter_after_the_grace_time() -> None:
    # B2; W16
    a_worker("tests.known")
    old = a_run("tests.gone", dt.timedelta(hours=1))
    young = a_run("tests.gone", dt.timedelta(seconds=1))
    known = a_run("tests.known", dt.timedelta(hours=1))

    assert strays.bury_unknown(clock.now()) == [(old.id, "tests.gone", 0)]

    statuses = dict(Run.objects.values_list("id", "status"))
    assert statuses == {old.id: "failed", young.id: "submitted", known.id: "submitted"}
    letter = DeadLetter.objects.get()
    assert (letter.run_id, letter.reason) == (old.id, "unknown_job")
    assert "tests.gone" in letter.error


def test_nothing_is_buried_while_no_worker_lives() -> None:
    # C1
    a_worker("tests.known", silent=dt.timedelta(hours=1))
    a_run("tests.gone", dt.timedelta(hours=1))
    assert strays.bury_unknown(clock.now()) == []
    assert not DeadLetter.objects.exists()
