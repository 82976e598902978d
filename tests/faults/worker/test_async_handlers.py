"""Async handlers through a real node: what they may ask, and how they are stopped."""

from __future__ import annotations

from tests.faults.harness import Site
from tests.faults.worker.test_handlers import done
from tests.testapp import jobs


def test_an_async_handler_reads_its_own_run(working: Site) -> None:
    # B4
    run = done(working, jobs.async_own_run.submit())
    assert (run.status, run.result) == ("completed", [[str(run.id), "running"]] * 2)
