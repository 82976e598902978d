"""What can be asked of a Run: join, cancel, retry, its trail."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from sync_scheduler import JoinTimeout, clock, signals
from sync_scheduler.errors import SchedulerError, UnknownJob
from sync_scheduler.models import Event, Run
from sync_scheduler.store import claims, progress
from sync_scheduler.work import complete
from sync_scheduler.work.wire import Report
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)


def claimed(run: Run) -> claims.Claim:
    (claim,) = claims.claim([run.id], "node-a", [run.job])
    return claim


def report(claim: claims.Claim, kind: str = "done", **facts: Any) -> Report:
    started, finished = claim.started_at.timestamp(), clock.now().timestamp()
    return Report(claim.id.hex, claim.token, kind, started, finished, **facts)


def end(run: Run, kind: str = "done", **facts: Any) -> None:
    claim = claimed(run)
    complete.settle([complete.ending_of(claim, report(claim, kind, **facts), "node-a")])


def in_thread(action: Any) -> threading.Thread:
    def work() -> None:
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_join_returns_a_run_that_has_ended_already() -> None:
    # B7
    run = jobs.add.submit(a=1, b=2)
    end(run, result=3)
    assert run.join() is run
    assert (run.status, run.result) == ("completed", 3)


def test_join_gives_up_after_its_time() -> None:
    # B7
    run = jobs.noop.submit()
    with pytest.raises(JoinTimeout, match=r"still submitted after 0\.1 s"):
        run.join(timeout=0.1)


def test_join_has_a_time_of_its_own(settings: Settings) -> None:
    # B7
    settings.SYNC_SCHEDULER = {"JOIN_TIMEOUT": 0.1}
    with pytest.raises(JoinTimeout):
        jobs.noop.submit().join()


@pytest.mark.parametrize("kind", ["embedded", "redis"])
def test_join_returns_when_the_run_ends(
    kind: str, settings: Settings, request: pytest.FixtureRequest
) -> None:
    # B7
    if kind == "redis":
        settings.SYNC_SCHEDULER = {"REDIS_URL": request.getfixturevalue("redis_url")}
    run = jobs.noop.submit()
    other = Run.objects.get(id=run.id)

    def finish() -> None:
        time.sleep(0.2)
        end(other)

    thread = in_thread(finish)
    try:
        assert run.join(timeout=20).status == "completed"
    finally:
        thread.join()


def test_join_works_while_redis_is_away(settings: Settings) -> None:
    # B7, B11
    settings.SYNC_SCHEDULER = {"REDIS_URL": "redis://127.0.0.1:1/0"}
    run = jobs.noop.submit()
    end(Run.objects.get(id=run.id))
    assert run.join(timeout=20).status == "completed"


def test_a_waiting_run_is_cancelled_at_once_and_only_once() -> None:
    # B8
    run = jobs.noop.submit()
    assert run.cancel(reason="not needed", by="ann")
    assert not run.cancel(reason="again")
    assert (run.status, run.reason, run.is_finished) == ("cancelled", "not needed", True)
    assert claims.claim([run.id], "node", ["tests.noop"]) == []
    last = run.events()[-1]
    assert (last.kind, last.data) == ("cancelled", {"reason": "not needed", "by": "ann"})


def test_a_cancel_needs_no_reason() -> None:
    # B8
    run = jobs.noop.submit()
    assert run.cancel(reason=None)
    assert run.reason == "cancelled"


def test_a_cancel_that_comes_first_wins_against_the_completion() -> None:
    # B8
    run = jobs.noop.submit()
    claim = claimed(run)
    assert run.cancel()
    recorded = complete.settle([complete.ending_of(claim, report(claim), "node-a")])
    assert recorded.accepted == frozenset()
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert [a.outcome for a in run.attempts.all()] == ["cancelled"]


def test_a_completion_that_comes_first_wins_against_the_cancel() -> None:
    # B8
    run = jobs.noop.submit()
    end(run)
    assert not run.cancel()
    assert run.status == "completed"


def test_a_reason_that_no_database_stores_is_cleaned() -> None:
    # B8
    run = jobs.noop.submit()
    claimed(run)
    assert run.cancel(reason="a\0b\ud800" + "x" * 5000, by="\0")
    assert run.reason.startswith("a\N{REPLACEMENT CHARACTER}b?")


def test_cancelling_is_told_once() -> None:
    # A9
    heard = []

    def hear(**facts: Any) -> None:
        heard.append((facts["run_id"], facts["status"]))

    run = jobs.noop.submit()
    signals.run_finished.connect(hear)
    try:
        run.cancel()
        run.cancel()
    finally:
        signals.run_finished.disconnect(hear)
    assert heard == [(run.id, "cancelled")]


def test_a_failed_run_is_retried_as_a_new_run_that_is_linked_to_it() -> None:
    # B1
    run = jobs.add.using(queue="slow", priority=3, meta={"a": 1}).submit(a=1, b=2)
    end(run, "error", error="ValueError: no")
    again = run.retry(by="ann")
    assert again.id != run.id
    assert (again.retry_of, again.trigger, again.status) == (run.id, "retry", "submitted")
    assert (again.input, again.queue, again.priority) == ({"a": 1, "b": 2}, "slow", 3)
    assert again.meta == {"a": 1, "retried_by": "ann"}
    run.refresh_from_db()
    assert run.status == "failed"


def test_a_retry_keeps_what_was_asked_for_at_submit() -> None:
    # B6
    run = jobs.noop.using(max_attempts=4, timeout=9, queue="slow", priority=3).submit()
    run.cancel()
    again = run.retry()
    kept = (again.max_attempts, again.timeout_seconds, again.queue, again.priority)
    assert kept == (4, 9, "slow", 3)


def test_a_retry_answers_the_dead_letter_of_its_run() -> None:
    # B1: from the shell, over HTTP and in code as in the admin
    run = jobs.add.submit(a=1, b=2)
    end(run, "error", error="ValueError: no")
    assert [letter.resolution for letter in run.dead_letters.all()] == [""]
    run.retry(by="ann")
    letter = run.dead_letters.get()
    assert (letter.resolution, letter.resolved_by) == ("retried", "ann")


def test_a_cancelled_run_can_be_retried() -> None:
    # B1
    run = jobs.noop.submit()
    run.cancel()
    assert run.retry().status == "submitted"


def test_what_has_not_failed_cannot_be_retried() -> None:
    # B1
    run = jobs.noop.submit()
    with pytest.raises(SchedulerError, match="is submitted"):
        run.retry()
    end(run)
    with pytest.raises(SchedulerError, match="is completed"):
        run.retry()


def test_a_run_of_a_job_that_is_gone_cannot_be_retried() -> None:
    # B1
    now = clock.now()
    run = Run.objects.create(job="gone", run_at=now, submitted_at=now, status="failed")
    with pytest.raises(UnknownJob, match="'gone'"):
        run.retry()


def test_the_trail_tells_the_whole_story() -> None:
    # B12
    run = jobs.fail.submit()
    claim = claimed(run)
    progress.record(
        [
            progress.Progress(
                run_id=run.id,
                token=claim.token,
                attempt=1,
                node="node-a",
                at=clock.now(),
                progress=0.5,
                message="half",
                touch_run=True,
            )
        ]
    )
    complete.settle(
        [complete.ending_of(claim, report(claim, "error", error="E: no", delay=0), "node-a")]
    )
    end(run)
    told = [(e.kind, e.attempt, e.node) for e in run.events()]
    assert told == [
        ("submitted", 0, ""),
        ("started", 1, "node-a"),
        ("heartbeat", 1, "node-a"),
        ("retry", 1, "node-a"),
        ("started", 2, "node-a"),
        ("completed", 2, "node-a"),
    ]
    run.refresh_from_db()
    assert (run.progress, run.progress_message) == (0.5, "half")


def test_a_running_run_has_started_in_its_trail() -> None:
    # B12
    run = jobs.noop.submit()
    claimed(run)
    assert [e.kind for e in run.events()] == ["submitted", "started"]


def test_following_ends_with_the_run() -> None:
    # B12
    run = jobs.noop.submit()
    other = Run.objects.get(id=run.id)
    seen = []
    thread = None
    for event in run.follow(timeout=20):
        seen.append(event.kind)
        if thread is None:
            thread = in_thread(lambda: end(other))
    assert thread is not None
    thread.join()
    assert seen == ["submitted", "started", "completed"]


def test_following_ends_with_its_time() -> None:
    # B12
    assert [e.kind for e in jobs.noop.submit().follow(timeout=0.1)] == ["submitted"]


def test_nobody_hears_of_progress_that_came_too_late() -> None:
    # B9
    run = jobs.noop.submit()
    claim = claimed(run)
    complete.settle([complete.ending_of(claim, report(claim), "node-a")])
    late = progress.Progress(
        run_id=run.id,
        token=claim.token,
        attempt=1,
        node="node-a",
        at=clock.now(),
        progress=0.1,
        message="late",
        touch_run=True,
    )
    progress.record([late])
    run.refresh_from_db()
    assert (run.progress, run.progress_message) == (None, "")
    assert Event.objects.count() == 1
