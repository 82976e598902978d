"""Processes that handlers start, through a real node."""

from __future__ import annotations

import pytest

from tests.faults.harness import Site, audit
from tests.faults.worker.test_handlers import done
from tests.testapp import jobs


@pytest.mark.parametrize("what", ["program", "copy"])
def test_what_a_handler_starts_ends_when_it_is_told_to(working: Site, what: str) -> None:
    # B1: a SIGTERM that is ignored in workers is not ignored in what they start
    run = done(working, jobs.end_process.submit(what=what))
    assert (run.status, run.result) == ("completed", -15)


@pytest.mark.parametrize("what", ["program", "copy"])
def test_a_crash_is_noticed_though_what_the_handler_started_lives_on(
    working: Site, what: str
) -> None:
    # B9; W13: the death of a child is seen by its pipe, which nobody else may keep open
    working.excuses["I8"] = "a copy keeps the connections of the process that it comes from"
    run = done(working, jobs.leave_process.submit(what=what))
    assert (run.status, run.result) == ("completed", "again")
    assert [a.outcome for a in run.attempts.all()] == ["crashed", "completed"]


@pytest.mark.parametrize(("how", "status"), [("return", 0), ("raise", 1), ("exit", 5)])
def test_a_copy_of_a_worker_ends_where_its_handler_does(
    working: Site, how: str, status: int
) -> None:
    # B16: it would commit or roll back the transaction of the other, and report for it
    run = done(working, jobs.fork.submit(how=how, name=how))
    assert (run.status, run.result) == ("completed", status)
    assert [a.outcome for a in run.attempts.all()] == ["completed"]
    audit(working, atomic=[run])
