"""Async handlers through a real node: what they may ask, and how they are stopped."""

from __future__ import annotations

from pathlib import Path

from tests.faults.harness import Site
from tests.faults.worker.test_handlers import done
from tests.testapp import jobs


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
    working.wait_line("tidying", str(run.id), seconds=5)
    # By the time the second of two more cancels is passed on, the first would have struck.
    for _ in range(2):
        other = jobs.wait.submit()
        working.wait_line("start", str(other.id))
        assert other.cancel()
        working.wait_line("cancelled", str(other.id), seconds=5)
    end.touch()
    working.wait_line("tidy ", str(run.id))
    assert not [line for line in working.lines() if line.startswith("disturbed")]


def test_a_handler_that_awaits_what_it_cancelled_has_failed(working: Site) -> None:
    # B15: nobody has sent it a timeout
    run = done(working, jobs.async_cancel_own_task.submit())
    assert (run.status, run.reason) == ("failed", "CancelledError: by its own hand")
