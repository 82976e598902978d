"""What handlers do, and what becomes of their Runs, through a real node."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from sync_scheduler import clock
from sync_scheduler.models import Attempt, Run, Step
from tests.faults.harness import Site, audit
from tests.testapp import jobs
from tests.testapp.models import Counter, Effect


def done(site: Site, run: Run, seconds: float = 20) -> Run:
    site.wait_ended([run], seconds)
    run.refresh_from_db()
    return run


def test_a_result_comes_back_to_who_joins(working: Site) -> None:
    # B1, B7
    assert jobs.add.submit(a=2, b=3).join(timeout=20).result == 5


def test_a_failing_run_is_tried_as_often_as_it_may_and_every_attempt_is_kept(
    working: Site,
) -> None:
    # B6, B12
    run = done(working, jobs.fail.submit())
    assert (run.status, run.attempt, run.reason) == ("failed", 3, "ValueError: no such order")
    attempts = list(Attempt.objects.filter(run=run))
    assert [a.outcome for a in attempts] == ["retried", "retried", "failed"]
    assert [a.number for a in attempts] == [1, 2, 3]
    assert all("raise ValueError(text)" in a.traceback for a in attempts)
    assert working.starts(run) == 3
    assert run.dead_letters.count() == 1


def test_a_run_that_succeeds_at_last_is_completed(working: Site) -> None:
    # B6
    run = done(working, jobs.fail_until.submit(attempt=3))
    assert (run.status, run.result, run.attempt) == ("completed", 3, 3)


def test_a_handler_may_ask_for_another_try_or_end_itself(working: Site) -> None:
    # B1
    again = done(working, jobs.ask_for_retry.submit())
    assert (again.status, again.result) == ("completed", 2)
    stopped = done(working, jobs.cancel_itself.submit())
    assert (stopped.status, stopped.reason) == ("cancelled", "nothing to do")


def test_an_atomic_handler_that_cancels_its_own_run_has_failed(working: Site) -> None:
    # B16: what it wrote is undone, the cancel with it; it would be begun again for ever
    run = done(working, jobs.atomic_cancel_own.submit())
    assert (run.status, run.attempt) == ("failed", 1)
    assert "raise Cancel" in run.error
    assert working.starts(run) == 1


def test_a_retry_resumes_behind_the_steps_that_are_stored(working: Site) -> None:
    # B4
    run = done(working, jobs.steps.submit())
    assert run.result == [1, 2]
    assert [line for line in working.lines() if line.startswith("step")] == [
        "step first",
        "step second",
    ]


def test_progress_is_shown_and_kept_in_the_trail(working: Site) -> None:
    # B4, B12
    run = done(working, jobs.progress.submit())
    working.wait(
        lambda: [e.kind for e in run.events()].count("heartbeat") >= 1, "a heartbeat is kept"
    )
    kinds = [event.kind for event in run.events()]
    assert kinds[0] == "submitted"
    assert kinds[-1] == "completed"
    assert kinds.index("started") < kinds.index("heartbeat") < kinds.index("completed")


@pytest.mark.parametrize(
    "what",
    [
        "timedelta",
        "nan",
        "text",
        "reason",
        "nul",
        "empty",
        "exit",
        "interrupt",
        "unspeakable",
        "half_made",
    ],
)
def test_whatever_a_handler_raises_is_an_outcome(working: Site, what: str) -> None:
    # B1; W17
    run = done(working, jobs.odd.submit(what=what))
    assert (run.status, run.result) == ("completed", "again")
    assert Attempt.objects.filter(run=run, outcome="retried").count() == 1
    assert working.nodes[0].is_running


@pytest.mark.parametrize("what", ["object", "nan", "nul", "huge", "loop", "bytes", "surrogate"])
def test_a_result_that_cannot_be_kept_does_not_undo_the_completion(
    working: Site, what: str
) -> None:
    # B1; W17
    run = done(working, jobs.odd_result.submit(what=what))
    assert (run.status, run.result) == ("completed", None)
    assert run.reason.startswith("Result not kept: ")


def test_an_atomic_handler_that_fails_leaves_nothing(working: Site) -> None:
    # B16
    run = done(working, jobs.atomic_fail.submit(name="undone"))
    assert run.status == "failed"
    assert not Effect.objects.exists()


def test_an_atomic_handler_that_rolls_back_quietly_has_failed(working: Site) -> None:
    # B16; W7
    run = done(working, jobs.atomic_roll_back.submit(name="undone"))
    assert run.status == "failed"
    assert "rolled its transaction back" in run.error
    assert not Effect.objects.exists()


def test_an_atomic_handler_that_swallows_a_database_error_has_failed(working: Site) -> None:
    # B16; W8
    run = done(working, jobs.atomic_swallow.submit(name="undone"))
    assert run.status == "failed"
    assert not Effect.objects.exists()


@pytest.mark.parametrize("kind", ["atomic_hang_up", "atomic_durable"])
def test_an_atomic_handler_that_breaks_out_of_its_transaction_has_failed(
    working: Site, kind: str
) -> None:
    # B16; W8
    run = done(working, getattr(jobs, kind).submit(name="undone"))
    assert run.status == "failed"
    assert not Effect.objects.exists()
    # Whoever comes next in that process has a connection that works.
    after = done(working, jobs.atomic_hang_up.submit(name="undone"))
    assert after.status == "failed"
    assert done(working, jobs.mark.submit(name="kept")).status == "completed"


def test_steps_of_an_atomic_handler_vanish_with_it(working: Site) -> None:
    # B4, B16
    run = done(working, jobs.atomic_steps.submit(name="once"))
    assert (run.status, run.attempt) == ("completed", 2)
    assert Effect.objects.count() == 1
    assert Step.objects.get(run=run).attempt == 2


def test_atomic_runs_count_exactly_once(working: Site) -> None:
    # B16
    Counter.objects.create(name="all")
    runs = jobs.atomic_count.submit_many([{"name": "all"}] * 40)
    working.wait_ended(runs, 60)
    assert Counter.objects.get().value == 40
    audit(working, atomic=runs)


def test_an_async_handler_uses_the_database(working: Site) -> None:
    # B4
    run = done(working, jobs.async_rows.submit(name="rows"))
    assert (run.status, run.result) == ("completed", 1)


def test_a_loop_without_end_is_stopped_by_its_timeout(working: Site) -> None:
    # B15; faults A17
    run = done(working, jobs.loop.submit())
    assert (run.status, run.reason) == ("timed_out", "timed_out")
    assert working.nodes[0].is_running


def test_a_handler_that_no_exception_can_reach_is_killed(working: Site) -> None:
    # B15; faults A17
    before = {child.pid for child in working.nodes[0].all_children()}
    run = done(working, jobs.sleep_hard.submit())
    assert run.status == "timed_out"
    assert Attempt.objects.get(run=run).outcome == "timed_out"
    working.wait(
        lambda: not before <= {c.pid for c in working.nodes[0].children()}, "a child was killed"
    )


def test_a_timeout_that_was_given_at_submit_counts(working: Site) -> None:
    # B15
    run = done(working, jobs.wait.using(timeout=0.3).submit(seconds=60))
    assert run.status == "timed_out"


def test_an_async_handler_is_stopped_by_its_timeout(working: Site) -> None:
    # B15: not so soon that it may strike before the handler has begun
    run = done(working, jobs.wait_async.using(timeout=2).submit())
    assert run.status == "timed_out"
    working.wait_line("cancelled wait_async", str(run.id))


@pytest.mark.parametrize("kind", ["wait", "wait_async"])
def test_a_running_handler_notices_its_cancellation_without_redis(working: Site, kind: str) -> None:
    # B8; W18, faults A19
    run = getattr(jobs, kind).submit()
    working.wait_line("start", str(run.id))
    assert run.cancel(reason="not needed")
    working.wait_line("cancelled", str(run.id))
    run.refresh_from_db()
    assert (run.status, run.reason) == ("cancelled", "not needed")
    assert [a.outcome for a in run.attempts.all()] == ["cancelled"]


def test_a_delayed_run_waits_for_its_time(working: Site) -> None:
    # B13
    late = jobs.noted.using(delay=3).submit(name="late")
    soon = jobs.noted.submit(name="soon")
    working.wait_ended([late, soon])
    late.refresh_from_db()
    assert late.started_at is not None
    assert late.started_at >= late.run_at
    assert [line.split()[1] for line in working.lines()] == ["noted-soon", "noted-late"]


def test_an_exact_time_is_kept(working: Site) -> None:
    # B13
    at = clock.now() + dt.timedelta(seconds=0.7)
    run = done(working, jobs.noted.using(at=at).submit())
    assert run.started_at is not None
    assert run.started_at >= at


def test_at_most_so_many_run_at_once(working: Site, tmp_path: Path) -> None:
    # B15
    gate = tmp_path / "open"
    runs = [jobs.limited.submit(path=str(gate)) for _ in range(6)]
    working.wait(lambda: len(working.lines()) >= 2, "two have started")
    # The other four have been asked for and put to wait; there are slots for all of them.
    working.wait(lambda: Run.objects.filter(waiting_for__isnull=False).count() == 4, "four wait")
    assert len(working.lines()) == 2
    gate.touch()
    working.wait_ended(runs)
    running = most = 0
    for line in working.lines():
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    assert most == 2
    assert {run.status for run in Run.objects.all()} == {"completed"}


def test_a_limit_can_be_per_value_of_the_input(working: Site, tmp_path: Path) -> None:
    # B15
    gate = tmp_path / "open"
    tenants = ["one", "one", "two"]
    runs = [jobs.per_tenant.submit(tenant=tenant, path=str(gate)) for tenant in tenants]
    working.wait(lambda: len(working.lines()) >= 2, "one of each has started")
    working.wait(lambda: Run.objects.filter(waiting_for__isnull=False).count() == 1, "one waits")
    assert sorted(line.split()[1] for line in working.lines()) == [
        "per_tenant-one",
        "per_tenant-two",
    ]
    gate.touch()
    working.wait_ended(runs)
    assert Run.objects.filter(status="completed").count() == 3


def test_a_rate_limit_spaces_the_starts(working: Site) -> None:
    # B15
    runs = jobs.rate.submit_many([{}] * 12)
    working.wait_ended(runs)
    assert len(working.lines()) == 12
    # By what the rows say: how long a handler's process waits for its turn is the machine's doing.
    rows = Run.objects.filter(id__in=[run.id for run in runs]).order_by("started_at")
    starts = [at for at in rows.values_list("started_at", flat=True) if at is not None]
    # Five at once use the whole allowance; the next five wait a second, and the last two another.
    assert starts[-1] - starts[0] > dt.timedelta(seconds=1.5)


def test_runs_that_submit_runs_end_at_the_limit(working: Site) -> None:
    # B15; W15, faults A18
    jobs.chain.submit()
    working.wait(lambda: Run.objects.filter(status="failed").exists(), "the chain was cut")
    # The one before it may end after it.
    working.wait_ended(Run.objects.all())
    assert Run.objects.filter(status="completed").count() == 5
    assert "MAX_CHAIN_DEPTH" in Run.objects.get(status="failed").error


def test_a_job_that_this_node_does_not_know_is_left_for_others(working: Site) -> None:
    # B1; W16
    stranger = Run.objects.create(
        job="elsewhere.sync", run_at=clock.now(), submitted_at=clock.now(), priority=100
    )
    behind = jobs.noop.submit()
    working.wait_ended([behind])
    stranger.refresh_from_db()
    assert (stranger.status, stranger.attempt) == ("submitted", 0)
    # To the auditor it would be a Run that has not ended, as soon as it is due for a moment.
    stranger.delete()


def test_a_renamed_job_answers_to_its_former_name(working: Site) -> None:
    # B1; W16
    run = Run.objects.create(job="tests.former", run_at=clock.now(), submitted_at=clock.now())
    assert done(working, run).result == "by its new name"
