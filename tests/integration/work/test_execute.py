"""An atomic handler's transaction: its writes and the Run's completion, or neither."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db.models import F

from sync_scheduler.jobs.definition import Job
from sync_scheduler.models import Run
from sync_scheduler.store import claims
from sync_scheduler.work import execute as execute_module
from sync_scheduler.work.backing import WorkerBacking
from sync_scheduler.work.execute import execute
from sync_scheduler.work.wire import Order, Report
from tests.testapp import jobs
from tests.testapp.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)


def ignore(*message: Any, **options: Any) -> None:
    """What the parent would be told."""


def claimed(job: Job) -> Order:
    run = job.submit(name="once")
    (claim,) = claims.claim([run.id], "node", {run.job})
    return Order(
        run=str(run.id),
        job=run.job,
        input=run.input,
        attempt=claim.attempt,
        token=claim.token,
        trigger=run.trigger,
        slot=None,
        depth=0,
        node="node",
    )


def executed(order: Order) -> Report:
    return execute(order, WorkerBacking(order, ignore))


def status(order: Order) -> str:
    return Run.objects.get(pk=order.run).status


def test_the_effects_and_the_completion_are_stored_together() -> None:  # B16
    order = claimed(jobs.slot_effect)
    assert executed(order).kind == "stored"
    assert (status(order), Effect.objects.count()) == ("completed", 1)


def test_a_transaction_that_was_open_for_long_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # B16, W26
    executed(claimed(jobs.slot_effect))
    assert "transaction open" not in caplog.text
    monkeypatch.setattr(execute_module, "_LONG_TRANSACTION", -1.0)
    executed(claimed(jobs.slot_effect))
    assert "tests.slot_effect kept its transaction open" in caplog.text


def test_a_handler_that_rolls_back_quietly_has_failed() -> None:  # B16, W7
    order = claimed(jobs.atomic_roll_back)
    report = executed(order)
    assert report.kind == "error"
    assert "rolled its transaction back" in report.error
    assert (status(order), Effect.objects.count()) == ("running", 0)


def test_a_run_that_was_taken_away_before_its_completion_has_no_effects() -> None:  # B16, W5
    order = claimed(jobs.slot_effect)
    Run.objects.filter(pk=order.run).update(token=F("token") + 1)
    assert executed(order).kind == "lost"
    assert (status(order), Effect.objects.count()) == ("running", 0)


def test_a_run_that_is_taken_away_at_the_last_moment_has_no_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # B16, W5: between the last look and the write
    order, look = claimed(jobs.slot_effect), claims.current

    def taken_away_behind_it(run: uuid.UUID, token: int) -> claims.Claim | None:
        found = look(run, token)
        Run.objects.filter(pk=run).update(token=F("token") + 1)
        return found

    monkeypatch.setattr(claims, "current", taken_away_behind_it)
    assert executed(order).kind != "stored"
    assert (status(order), Effect.objects.count()) == ("running", 0)
