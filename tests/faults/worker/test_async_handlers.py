"""Async handlers through a real node: what they may ask, and how they are stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sync_scheduler.jobs.definition import Job
from tests.faults.harness import Site
from tests.faults.worker.test_handlers import done
from tests.testapp import jobs
from tests.testapp.models import Effect


def test_an_async_handler_reads_its_own_run(working: Site) -> None:
    # B4
    run = done(working, jobs.async_own_run.submit())
    assert (run.status, run.result) == ("completed", [[str(run.id), "running"]] * 2)


def test_a_cancel_strikes_once_and_lets_the_handler_tidy_up(working: Site, tmp_path: Path) -> None:
    # B8: the node tells of a cancel again and again, until the handler has ended
    end = tmp_path / "end"
    run = jobs.async_tidy_up.submit(path=str(end))
    working.wait_line("start", str(run.id))
    assert run.cancel()
    working.wait_line("tidying", str(run.id))
    # By the time the second of two more cancels is passed on, the first would have struck.
    for _ in range(2):
        other = jobs.wait.submit()
        working.wait_line("start", str(other.id))
        assert other.cancel()
        working.wait_line("cancelled", str(other.id))
    end.touch()
    working.wait_line("tidy ", str(run.id))
    assert not [line for line in working.lines() if line.startswith("disturbed")]


def test_a_handler_that_awaits_what_it_cancelled_has_failed(working: Site) -> None:
    # B15: nobody has sent it a timeout
    run = done(working, jobs.async_cancel_own_task.submit())
    assert (run.status, run.reason) == ("failed", "CancelledError: by its own hand")


def test_an_async_handler_behind_a_plain_decorator_runs(working: Site) -> None:
    # B1
    run = done(working, jobs.async_wrapped.submit(name="wrapped"))
    assert (run.status, run.result) == ("completed", ["wrapped", str(run.id)])
    assert Effect.objects.filter(run=run.id).count() == 1


def test_a_decorator_may_run_the_coroutine_itself(working: Site) -> None:
    # B1
    run = done(working, jobs.async_run_plainly.submit(value=7))
    assert (run.status, run.result) == ("completed", 7)


def test_an_async_handler_behind_a_plain_decorator_is_cancelled(working: Site) -> None:
    # B8
    run = jobs.async_wrapped_wait.submit()
    working.wait_line("start", str(run.id))
    assert run.cancel(reason="not needed")
    working.wait_line("tidy", str(run.id))


def test_an_async_handler_behind_a_plain_decorator_has_its_timeout(working: Site) -> None:
    # B15: and its process need not be killed for it; not so soon that it may strike before the
    # handler has begun
    before = {child.pid for child in working.nodes[0].all_children()}
    run = done(working, jobs.async_wrapped_wait.using(timeout=2).submit())
    assert run.status == "timed_out"
    working.wait_line("tidy", str(run.id))
    assert before == {child.pid for child in working.nodes[0].children()}


@pytest.mark.parametrize(
    ("job", "given", "what"),
    [
        (jobs.forget_to_await, {}, "coroutine"),
        (jobs.async_forget_to_await, {"kind": "coroutine"}, "coroutine"),
        (jobs.async_forget_to_await, {"kind": "task"}, "Task"),
        (jobs.atomic_forget_to_await, {"name": "forgotten"}, "coroutine"),
    ],
)
def test_a_handler_that_returns_what_nobody_awaits_has_failed(
    working: Site, job: Job, given: dict[str, Any], what: str
) -> None:
    # B1: completed would mean that the work is done
    run = done(working, job.submit(**given))
    assert run.status == "failed"
    assert f"The handler returned a {what} that nobody awaits" in run.error
    assert Effect.objects.count() == 0
