"""Outcomes that the database will not take."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError, OperationalError

from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.work import complete
from tests.integration.store.runs import claim_of, ending, make

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_outcome_that_cannot_be_stored_ends_its_run_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # W17: completing must not depend on what a handler returned
    settle = complete.settle

    def refuse_the_odd_one(endings: Any) -> Any:
        if any(one.result == "odd" for one in endings):
            raise DataError("this value cannot be stored")
        return settle(endings)

    monkeypatch.setattr(complete, "settle", refuse_the_odd_one)
    runs = [make("running") for _ in range(3)]
    ledger = Ledger()
    for run, result in zip(runs, ("one", "odd", "three"), strict=True):
        ledger.note(ending(claim_of(run), State.COMPLETED, result=result))
    for _ in range(2):
        ledger.settle(idle=True, patient=False)

    assert ledger.is_empty()
    for run in runs:
        run.refresh_from_db()
    assert [run.status for run in runs] == ["completed", "failed", "completed"]
    assert runs[1].reason == "The outcome could not be stored."
    assert Attempt.objects.filter(run=runs[1]).count() == 1


def test_a_completion_whose_answer_was_lost_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B2; W6: committed, then the connection broke, and the outcome is written again
    settle = complete.settle
    broken: list[int] = []

    def break_after_the_first(endings: Any) -> Any:
        recorded = settle(endings)
        if not broken:
            broken.append(1)
            raise OperationalError("server closed the connection unexpectedly")
        return recorded

    monkeypatch.setattr(complete, "settle", break_after_the_first)
    run = make("running")
    claim = claim_of(run)
    ledger = Ledger()
    ledger.note(ending(claim, State.COMPLETED, result="first"))
    ledger.settle(idle=True, patient=False)
    assert not ledger.is_empty()
    # Nor does a child that takes the lost answer for a failure change anything.
    ledger.note(ending(claim, State.FAILED, error="the connection broke"))
    ledger.settle(idle=True, patient=False)

    run.refresh_from_db()
    assert ledger.is_empty()
    assert (run.status, run.result) == ("completed", "first")
    assert [a.outcome for a in run.attempts.all()] == ["completed"]
    assert run.dead_letters.count() == 0


def test_a_run_that_has_failed_for_good_has_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # B12; S21: who watches the logs hears of it, and nothing in it can forge another line
    last, once_more, good = (make("running") for _ in range(3))
    complete.settle(
        [
            ending(claim_of(last), State.FAILED, error="ValueError: no\x1b[2J paper\nsecond line"),
            ending(claim_of(once_more), State.SUBMITTED, error="ValueError: not yet"),
            ending(claim_of(good), State.COMPLETED),
        ]
    )
    (record,) = (one for one in caplog.records if getattr(one, "event", "") == "run_failed")
    assert record.getMessage() == (
        f"Run {last.id} of {last.job} failed in attempt {last.attempt}:"
        r" 'ValueError: no\x1b[2J paper'"
    )
    assert record.levelname == "WARNING"
