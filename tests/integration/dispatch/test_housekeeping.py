"""What the leader does beside dispatching: putting back, taking back, ending, deleting, mending."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.test import override_settings

from sync_scheduler import clock, conf, cron, job
from sync_scheduler.coordination import client, ready_queue
from sync_scheduler.dispatch import reconcile, sweep
from sync_scheduler.dispatch.mend import Mender
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.jobs import registry
from sync_scheduler.models import Attempt, DeadLetter, Node, Run, Schedule, Step, Term
from sync_scheduler.store import upkeep
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db

SECOND = dt.timedelta(seconds=1)
DAY = dt.timedelta(days=1)


def make_run(**values: Any) -> Run:
    now = clock.now()
    defaults = {"job": "tests.noop", "run_at": now - 10 * SECOND, "submitted_at": now - 10 * SECOND}
    return Run.objects.create(**{**defaults, **values})


def findings() -> upkeep.Findings:
    return upkeep.probe(clock.now() - reconcile.GRACE)


# ---------------------------------------------------------------------------- probing


def test_an_idle_leader_finds_nothing_with_one_statement(
    django_assert_num_queries: Any,
) -> None:
    lead()
    with django_assert_num_queries(1):
        found = findings()

    assert (found.has_ready, found.has_waiting, found.has_running) == (False, False, False)


def test_each_kind_of_row_is_found() -> None:
    lead()
    make_run()
    make_run(waiting_for="guard:7")
    make_run(status="running", node="n")
    found = findings()

    assert (found.has_ready, found.has_waiting, found.has_running) == (True, True, True)


# ---------------------------------------------------------------------------- reconciling


def test_what_is_missing_in_redis_is_put_back_once(redis_url: str) -> None:  # C4
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url}):
        lead()
        lost, there = make_run(), make_run(priority=5)
        fresh = make_run(run_at=clock.now())
        ready_queue.push(
            [ready_queue.Ready(id=there.id.hex, queue="default", priority=5, run_at=there.run_at)]
        )
        for _ in range(3):
            reconcile.reconcile(clock.now(), findings())

        members = client.client().zrange(client.keys().ready("default"), 0, -1)
        assert members == [there.id.hex, lost.id.hex]
        assert fresh.id.hex not in members


def test_a_queue_that_is_full_enough_is_not_filled_further(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # C4
    monkeypatch.setattr(reconcile, "ENOUGH", 3)
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url}):
        lead()
        for _ in range(5):
            make_run()
        client.client().zadd(
            client.keys().ready("default"), {"x" * 32: 1, "y" * 32: 1, "z" * 32: 1}
        )
        assert reconcile.reconcile(clock.now(), findings()).pushed == 0


def test_redis_being_away_is_no_error_for_the_reconciler() -> None:  # B11
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": "redis://127.0.0.1:1/0"}):
        lead()
        make_run()
        assert reconcile.reconcile(clock.now(), findings()).pushed == 0


def test_a_run_that_waits_for_nobody_is_let_go() -> None:  # A11, L17
    lead()
    run = make_run(guard=7, waiting_for="guard:7")
    done = reconcile.reconcile(clock.now(), findings())

    run.refresh_from_db()
    assert done.released == 1
    assert run.waiting_for is None


# ---------------------------------------------------------------------------- sweeping


def lost_node(name: str, silent: dt.timedelta) -> Run:
    now = clock.now()
    Node.objects.create(
        name=name, host="h", pid=1, started_at=now - silent, heartbeat_at=now - silent
    )
    return make_run(status="running", node=name, started_at=now - silent, attempt=1, token=1)


def contact_of(seconds: float) -> sweep.Contact:
    contact = sweep.Contact()
    contact.touch()
    contact._since = clock.boot_seconds() - seconds
    return contact


def test_runs_of_a_dead_node_are_taken_up_again() -> None:  # B9, C1
    run = lost_node("dead", 60 * SECOND)
    done = sweep.sweep(clock.now(), contact_of(60))

    run.refresh_from_db()
    assert done.taken_back == 1
    assert run.status == "submitted"


def test_runs_of_a_living_node_are_left_alone() -> None:  # B9
    run = lost_node("alive", 6 * SECOND)
    sweep.sweep(clock.now(), contact_of(60))

    run.refresh_from_db()
    assert run.status == "running"


def test_who_has_not_watched_for_a_lease_takes_nothing_back() -> None:  # W12
    run = lost_node("silent", 60 * SECOND)
    sweep.sweep(clock.now(), contact_of(10))

    run.refresh_from_db()
    assert run.status == "running"


def test_who_stood_still_before_its_look_takes_nothing_back() -> None:  # C2, W12
    run = lost_node("silent", 60 * SECOND)
    contact = contact_of(600)
    # As after a pause of the whole machine: all that time nobody could report.
    contact._last -= 3 * conf.get().SWEEP_INTERVAL + 1
    sweep.sweep(clock.now(), contact)

    run.refresh_from_db()
    assert run.status == "running"


def test_an_outage_of_the_database_begins_the_watch_anew() -> None:  # W12
    contact = contact_of(600)
    contact.lose()
    contact.touch()

    assert contact.unbroken_seconds == 0


def test_a_run_far_beyond_its_timeout_is_ended() -> None:  # C6
    now = clock.now()
    Node.objects.create(name="n", host="h", pid=1, started_at=now, heartbeat_at=now)
    common = {"status": "running", "node": "n", "attempt": 1, "token": 1}
    old = make_run(started_at=now - 500 * SECOND, timeout_seconds=100, **common)
    within = make_run(started_at=now - 350 * SECOND, timeout_seconds=100, **common)
    endless = make_run(started_at=now - 10 * DAY, **common)
    done = sweep.sweep(now, contact_of(60))

    for run in (old, within, endless):
        run.refresh_from_db()
    assert done.orphans == 1
    assert (old.status, old.reason) == ("timed_out", "orphaned")
    assert (within.status, endless.status) == ("running", "running")


# ---------------------------------------------------------------------------- pruning


def finished(age: dt.timedelta, **values: Any) -> Run:
    at = clock.now() - age
    return make_run(status="completed", finished_at=at, **values)


def test_old_runs_go_with_all_that_belongs_to_them() -> None:  # B10
    old, young = finished(8 * DAY), finished(6 * DAY)
    active = make_run(submitted_at=clock.now() - 30 * DAY)
    for run in (old, young):
        Attempt.objects.create(
            run=run,
            number=1,
            node="n",
            started_at=run.submitted_at,
            finished_at=run.submitted_at,
            outcome="completed",
        )
        Step.objects.create(run=run, name="s", attempt=1, finished_at=run.submitted_at)
    letter = DeadLetter.objects.create(kind="run", run=old, job="x", created_at=clock.now())

    assert Pruner().prune(clock.now()) == 1
    assert set(Run.objects.values_list("id", flat=True)) == {young.id, active.id}
    assert list(Attempt.objects.values_list("run_id", flat=True)) == [young.id]
    assert list(Step.objects.values_list("run_id", flat=True)) == [young.id]
    letter.refresh_from_db()
    assert letter.run_id is None


def test_a_job_may_keep_its_runs_shorter_or_longer() -> None:  # B10
    @job(name="tests.short", retention=dt.timedelta(hours=1))
    def short() -> None: ...

    @job(name="tests.long", retention=30 * DAY)
    def long() -> None: ...

    try:
        finished(DAY, job="tests.short")
        kept = finished(8 * DAY, job="tests.long")
        Pruner().prune(clock.now())
        assert [run.id for run in Run.objects.all()] == [kept.id]
    finally:
        registry.remove("tests.short")
        registry.remove("tests.long")


def test_pruning_goes_in_batches_and_stops_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        finished(8 * DAY)
    answers = iter([True, False])
    pruner = Pruner()
    monkeypatch.setattr("sync_scheduler.store.pruning.BATCH", 1)
    monkeypatch.setattr("sync_scheduler.store.pruning.delete_runs.__defaults__", (1,))

    assert pruner.prune(clock.now(), lambda: next(answers, False)) == 1
    assert pruner.prune(clock.now()) == 2


def test_old_terms_nodes_and_settled_letters_go() -> None:  # B10
    now = clock.now()
    Term.objects.create(epoch=1, holder="x", started_at=now - 20 * DAY, ended_at=now - 10 * DAY)
    Term.objects.create(epoch=2, holder="x", started_at=now - 10 * DAY)
    for name, age in (("old", 2 * DAY), ("new", SECOND)):
        Node.objects.create(
            name=name, host="h", pid=1, started_at=now - 3 * DAY, heartbeat_at=now - age
        )
    for resolved_at in (now - 8 * DAY, None):
        DeadLetter.objects.create(
            kind="run",
            job="x",
            created_at=now - 9 * DAY,
            resolved_at=resolved_at,
            resolution="" if resolved_at is None else "discarded",
        )
    Pruner().prune(now)

    assert list(Term.objects.values_list("epoch", flat=True)) == [2]
    assert list(Node.objects.values_list("name", flat=True)) == ["new"]
    assert [letter.resolution for letter in DeadLetter.objects.all()] == [""]


def test_more_old_letters_than_a_batch_go_too(monkeypatch: pytest.MonkeyPatch) -> None:  # B10
    now = clock.now()
    for age in (80 * DAY, 79 * DAY, 78 * DAY, 9 * DAY):
        DeadLetter.objects.create(kind="run", job="x", created_at=now - age)
    monkeypatch.setattr("sync_scheduler.store.pruning.BATCH", 1)
    monkeypatch.setattr("sync_scheduler.store.pruning.delete_dead_letters.__defaults__", (1,))
    answers = iter([True, True, False])  # the first one is asked about Runs
    pruner = Pruner()

    pruner.prune(now, lambda: next(answers, False))
    assert DeadLetter.objects.count() == 3
    pruner.prune(now)  # goes on where it was stopped, and not in an hour
    assert DeadLetter.objects.get().created_at == now - 9 * DAY


# ---------------------------------------------------------------------------- mending


def make_schedule(**values: Any) -> Schedule:
    rule = cron("0 * * * *", tz="UTC")
    schedule = Schedule.objects.register("s", job=jobs.noop, rule=rule).schedule
    Schedule.objects.filter(pk=schedule.pk).update(**values)
    return Schedule.objects.get(pk=schedule.pk)


@pytest.mark.parametrize("wrong", [None, dt.datetime(2099, 1, 1, 0, 30, tzinfo=dt.UTC)])
def test_a_next_run_that_nobody_would_come_to_is_put_right(
    wrong: dt.datetime | None,
) -> None:  # L7
    schedule = make_schedule(next_run_at=wrong)
    term = lead()

    assert Mender().mend(clock.now(), term.epoch) == 1
    schedule.refresh_from_db()
    assert schedule.next_run_at == schedule.preview(1)[0]
    assert Mender().mend(clock.now(), term.epoch) == 0


def test_a_schedule_disabled_behind_our_back_makes_up_for_nothing_later() -> None:  # A17
    schedule = make_schedule(enabled=False, next_run_at=clock.now() - DAY)
    term = lead()
    Mender().mend(clock.now(), term.epoch)
    Schedule.objects.filter(pk=schedule.pk).update(enabled=True)
    Mender().mend(clock.now(), term.epoch)

    schedule.refresh_from_db()
    assert schedule.next_run_at is not None
    assert schedule.next_run_at > clock.now()


def test_a_term_that_is_over_mends_nothing() -> None:  # A2
    schedule = make_schedule(next_run_at=None)
    old = lead()
    lead("other")

    assert Mender().mend(clock.now(), old.epoch) == 0
    schedule.refresh_from_db()
    assert schedule.next_run_at is None
