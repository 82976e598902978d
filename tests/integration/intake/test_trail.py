"""The audit trail and the signals when a Run does not end as usual."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError

from sync_scheduler import clock, signals
from sync_scheduler.dispatch import sweep
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node, Run
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.store.reports import changes
from sync_scheduler.work import complete
from tests.integration.intake.test_runs import claimed, report
from tests.integration.store.runs import make
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = dt.timedelta(hours=1)


def trail(run: Run) -> list[tuple[str, int]]:
    return [(event.kind, event.attempt) for event in run.events()]


def a_node(name: str, silent: dt.timedelta = dt.timedelta(), **values: Any) -> None:
    then = clock.now() - silent
    Node.objects.create(name=name, host="h", pid=1, started_at=then, heartbeat_at=then, **values)


def contact() -> sweep.Contact:
    made = sweep.Contact()
    made.touch()
    made._since = clock.boot_seconds() - 600
    return made


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    heard: list[tuple[str, Any]] = []

    def finished(status: str, run_id: Any, **_: Any) -> None:
        heard.append((status, run_id))

    def retried(reason: str, run_id: Any, **_: Any) -> None:
        heard.append((reason, run_id))

    signals.run_finished.connect(finished)
    signals.run_retried.connect(retried)
    yield heard
    signals.run_finished.disconnect(finished)
    signals.run_retried.disconnect(retried)


def crash(run: Run) -> None:
    claim = claimed(run)
    complete.settle([complete.crashed(claim, "node-a", "it died", guilty=True, limit=3)])


def test_a_run_that_crashed_too_often_has_failed_in_its_trail() -> None:
    # B12
    run = jobs.noop.submit()
    for _ in range(3):
        crash(run)
    assert run.events()[-1].kind == "failed"
    assert trail(run)[1:3] == [("started", 1), ("retry", 1)]
    look = changes.since(changes.Position(looked_at=clock.now() - HOUR, attempt=0, event=0))
    kinds = [change.kind for change in look.changes]
    assert (kinds.count("retry"), kinds.count("finished")) == (2, 1)


def test_a_run_whose_node_died_too_often_has_failed_and_is_told(
    told: list[tuple[str, Any]],
) -> None:
    # B12
    a_node("dead", HOUR)
    then = clock.now() - HOUR
    values: dict[str, Any] = {"node": "dead", "started_at": then, "submitted_at": then}
    first = make("running", **values)
    last = make("running", suspect=True, crashes=2, **values)
    assert sweep.sweep(clock.now(), contact()).taken_back == 2
    assert trail(first) == [("submitted", 0), ("started", 1), ("retry", 1)]
    assert trail(last) == [("submitted", 0), ("started", 1), ("failed", 1)]
    assert sorted(told) == sorted([("node_lost", first.id), ("failed", last.id)])


def test_the_end_of_an_orphan_is_told(told: list[tuple[str, Any]]) -> None:
    # B12
    a_node("alive")
    then = clock.now() - HOUR
    run = make("running", node="alive", started_at=then, submitted_at=then, timeout_seconds=1)
    assert sweep.sweep(clock.now(), contact()).orphans == 1
    assert trail(run) == [("submitted", 0), ("started", 1), ("timed_out", 1)]
    assert told == [("timed_out", run.id)]


def test_a_run_that_no_node_knows_has_failed_and_is_told(told: list[tuple[str, Any]]) -> None:
    # B12
    a_node("alive", jobs=["tests.noop"], slots=4)
    then = clock.now() - HOUR
    run = make(job="tests.gone", run_at=then, submitted_at=then)
    assert sweep.bury_unknown(clock.now(), contact()) == 1
    last = run.events()[-1]
    assert (last.kind, last.data["reason"]) == ("failed", "unknown_job")
    assert told == [("failed", run.id)]


def test_a_timeout_that_is_not_the_end_is_a_retry() -> None:
    # B12
    run = jobs.noop.using(max_attempts=2).submit()
    for _ in range(2):
        claim = claimed(run)
        ending = complete.ending_of(claim, report(claim, "timeout", delay=0), "node-a")
        complete.settle([ending])
    assert trail(run)[2::2] == [("retry", 1), ("timed_out", 2)]
    assert run.events()[2].data["outcome"] == "timed_out"


def test_an_outcome_that_cannot_be_stored_has_not_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B12: the trail and the Run say the same
    settle = complete.settle

    def refuse(endings: Any) -> Any:
        if any(one.status is State.COMPLETED for one in endings):
            raise DataError("this value cannot be stored")
        return settle(endings)

    monkeypatch.setattr(complete, "settle", refuse)
    run = jobs.noop.submit()
    claim = claimed(run)
    ledger = Ledger()
    ledger.note_report(claim, report(claim), "node-a")
    for _ in range(2):
        ledger.settle(idle=True, patient=False)
    assert [kind for kind, _ in trail(run)] == ["submitted", "started", "failed"]


def test_who_follows_hears_of_each_start_once() -> None:
    # B12: the claim comes before what the child calls the beginning, and numbers are given back
    run = jobs.noop.submit()
    seen = []
    claim = claimed(run)
    for event in run.follow(timeout=20):
        seen.append((event.kind, event.attempt))
        if seen[-1] == ("started", 1) and len(seen) == 2:
            complete.settle([complete.given_back(claim, "node-a")])
            claim = claimed(run)
        elif len(seen) == 4:
            later = report(claim)._replace(started=claim.started_at.timestamp() + 0.001)
            complete.settle([complete.ending_of(claim, later, "node-a")])
    assert seen == [
        ("submitted", 0),
        ("started", 1),
        ("given_back", 1),
        ("started", 1),
        ("completed", 1),
    ]
