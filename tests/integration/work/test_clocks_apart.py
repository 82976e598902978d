"""Ids that Redis hands out before the database's clock says that their Runs are due."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator

import pytest
from django.db import connection
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import announcer, client, queues, ready_queue
from sync_scheduler.jobs.definition import Job
from sync_scheduler.store import claims
from sync_scheduler.work import claim
from tests.integration.store.runs import make
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _with_redis(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[None, None, None]:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    yield
    announcer.flush(5)


def take() -> ready_queue.Taken:
    assert announcer.flush(30)
    return ready_queue.take(["default"], 10)


@pytest.mark.parametrize("job", [jobs.until_file, jobs.limited])
def test_a_run_that_the_database_calls_too_early_is_asked_for_when_it_is_due(job: Job) -> None:
    # B1, C3: else only the next poll or the reconciler finds it, seconds later
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no clock of its own")
    with clock.shifted(dt.timedelta(seconds=20)):
        run = job.submit(path="x")
        assert take().ids == [run.id.hex]
        assert claim.claim_ids([run.id], "node", claim.known()) == []
        later = take()
        assert later.ids == []
        assert later.next_seconds == pytest.approx(20, abs=10)


def test_a_run_that_becomes_due_right_after_the_claim_comes_back_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B1, C3
    run = make(run_at=clock.now())
    monkeypatch.setattr(claim, "_MOMENT", dt.timedelta(hours=1))
    monkeypatch.setattr(claims, "claim", lambda *_: [])
    assert claim.claim_ids([run.id], "node", claim.known()) == []
    assert take().ids == [run.id.hex]


def test_a_run_that_was_due_and_could_not_be_had_does_not_go_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B1: somebody else is about to have it
    run = make(run_at=clock.now() - dt.timedelta(seconds=5))
    monkeypatch.setattr(claims, "claim", lambda *_: [])
    assert claim.claim_ids([run.id], "node", claim.known()) == []
    assert take().ids == []
