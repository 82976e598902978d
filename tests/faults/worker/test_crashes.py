"""Handlers that take their process down with them, and those who share it."""

from __future__ import annotations

import pytest

from sync_scheduler.models import Attempt, Run
from tests.faults.harness import QUICK, Site, audit
from tests.services.server import wait_until
from tests.testapp import jobs


@pytest.mark.parametrize("how", ["segfault", "exit"])
def test_a_run_that_kills_its_process_is_dead_after_three_crashes_and_harms_nobody(
    site: Site, how: str
) -> None:
    # B9, B15; W13, W14, faults A17
    site.start("--no-dispatch", "--processes=1", "--threads=4")
    neighbours = [jobs.wait.submit(seconds=0.5) for _ in range(3)]
    culprit = jobs.crash.submit(how=how)
    after = [jobs.noted.submit() for _ in range(10)]
    site.wait_ended([culprit, *neighbours, *after], 60)
    culprit.refresh_from_db()
    assert (culprit.status, culprit.reason) == ("failed", "crashed")
    assert site.starts(culprit) == 3
    assert culprit.dead_letters.count() == 1
    for run in Run.objects.exclude(id=culprit.id):
        assert (run.status, run.attempt) == ("completed", 1), run
    audit(site, plain=[*neighbours, *after])


def test_a_crash_behind_reports_that_were_not_sent_yet_is_charged_to_its_cause(
    site: Site,
) -> None:
    # B9, B15; W13, W14, faults A17: handlers that are known to be tiny wait in their child
    site.start("--no-dispatch", "--processes=1", "--threads=1")
    harmless = {"how": "raise"}
    site.wait_ended(jobs.crash.submit_many([harmless] * 40), 60)
    runs = jobs.crash.submit_many([*([harmless] * 30), {"how": "exit"}, *([harmless] * 30)])
    site.wait_ended(runs, 60)
    culprit = runs.pop(30)
    culprit.refresh_from_db()
    assert (culprit.status, culprit.reason, culprit.attempt) == ("failed", "crashed", 3)
    assert site.starts(culprit) == 3
    for run in Run.objects.filter(id__in=[run.id for run in runs]):
        assert (run.status, run.reason == "crashed", run.crashes) == ("failed", False, 0), run


def test_a_run_that_eats_memory_is_dead_after_three_crashes(site: Site) -> None:
    # B15; W13, faults A17
    site.start("--no-dispatch", "--processes=1", "--threads=2", SYNC_SCHEDULER_MAX_MEMORY_MB="250")
    hungry = jobs.eat_memory.submit()
    site.wait_line("start eat_memory")
    others = [jobs.noted.submit() for _ in range(5)]
    site.wait_ended([hungry, *others], 60)
    hungry.refresh_from_db()
    assert (hungry.status, hungry.reason) == ("failed", "crashed")
    assert site.starts(hungry) == 3
    assert {run.status for run in Run.objects.exclude(id=hungry.id)} == {"completed"}


def test_a_handler_that_holds_the_interpreter_for_three_leases_keeps_its_run(site: Site) -> None:
    # B9; W9
    site.start("--no-dispatch", "--processes=1")
    # A second node with a dispatcher sweeps what looks lost, all the time.
    site.start("--no-work")
    run = jobs.hold_gil.submit(seconds=3 * round(float(QUICK["SYNC_SCHEDULER_NODE_LEASE"])))
    site.wait_ended([run])
    run.refresh_from_db()
    assert (run.status, run.result, run.attempt) == ("completed", "let go", 1)
    assert site.starts(run) == 1
    assert [a.outcome for a in run.attempts.all()] == ["completed"]


def test_a_handler_that_holds_the_interpreter_beyond_its_timeout_is_killed(site: Site) -> None:
    # B15; W9, faults A17
    site.start("--no-dispatch", "--processes=1", "--threads=4")
    stuck = jobs.hold_gil_too_long.submit()
    site.wait_line("start hold_gil_too_long")
    # More than fits into the pipe to a child that does not read.
    others = [jobs.heavy.submit(data="x" * 250_000, size=10) for _ in range(6)]
    site.wait_ended([stuck, *others], 60)
    stuck.refresh_from_db()
    assert stuck.status == "timed_out"
    assert {run.status for run in Run.objects.exclude(id=stuck.id)} == {"completed"}


def test_the_largest_inputs_and_results_pass_in_both_directions(site: Site) -> None:
    # B1
    site.start("--no-dispatch", "--processes=1", "--threads=4")
    runs = [jobs.heavy.submit(data="x" * 250_000, size=60_000) for _ in range(60)]
    site.wait_ended(runs, 60)
    assert {len(str(run.result)) for run in Run.objects.all()} == {60_000}


def test_a_suspect_gets_its_turn_while_others_keep_the_node_busy(site: Site) -> None:
    # B9
    site.start("--no-dispatch", "--processes=2", "--threads=3")
    # Never two at the same time: whenever one ends, others are in the middle of their work.
    busy = jobs.wait.submit_many([{"seconds": 0.3 + 0.07 * (i % 7)} for i in range(200)])
    site.wait(lambda: len(site.lines()) >= 6, "all threads are busy")
    suspect = jobs.noted.using(priority=100).submit(name="suspect")
    Run.objects.filter(id=suspect.id).update(suspect=True)
    site.wait_ended([suspect], 90)
    left = Run.objects.filter(id__in=[run.id for run in busy], status="submitted")
    assert left.exists(), "the suspect was left until everything else was through"


def test_a_killed_child_is_replaced_and_its_run_taken_up_again(site: Site) -> None:
    # B9
    node = site.start("--no-dispatch", "--processes=1", "--threads=1")
    run = jobs.wait.submit(seconds=1)
    site.wait_line("start wait")
    node.children()[0].kill()
    site.wait_ended([run])
    run.refresh_from_db()
    assert run.status == "completed"
    assert [a.outcome for a in run.attempts.all()] == ["crashed", "completed"]
    assert "SIGKILL" in Attempt.objects.filter(run=run, outcome="crashed").get().error
    wait_until(lambda: len(node.children()) == 1, seconds=40, what="a child is there")


def test_children_are_recycled_after_so_many_runs(site: Site) -> None:
    # B1
    node = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_RECYCLE_RUNS="5")
    before = {child.pid for child in node.all_children()}
    runs = jobs.noted.submit_many([{}] * 40)
    site.wait_ended(runs)
    site.wait(lambda: not before & {c.pid for c in node.children()}, "the first child is gone")
    audit(site, plain=runs)
    assert Run.objects.filter(status="completed").count() == 40


def test_a_node_whose_nursery_is_killed_ends_with_an_error_and_loses_nothing(site: Site) -> None:
    # B9
    node = site.start("--no-dispatch", "--processes=1", "--threads=1")
    run = jobs.wait.submit(seconds=1)
    site.wait_line("start wait")
    nursery = node.children()[0].parent()
    assert nursery is not None
    nursery.kill()
    assert node.process.wait(60) != 0
    site.start("--processes=1")
    site.wait_ended([run])
    run.refresh_from_db()
    assert run.status == "completed"
