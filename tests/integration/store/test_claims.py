"""Picking and claiming: what is to be had, no more than asked for, by one only."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import Counter
from typing import Any

import pytest
from django.db import connection, transaction

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run
from sync_scheduler.store import cancels, claims, waiting
from tests.integration.store.runs import JOB, claim_of, make, record

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_ready_is_picked_best_first() -> None:
    # B15
    now = clock.now()
    low = make(priority=-5)
    old = make(run_at=now - dt.timedelta(minutes=5))
    new = make(run_at=now - dt.timedelta(minutes=1))
    high = make(priority=5)
    make(run_at=now + dt.timedelta(minutes=1))
    make(status="running")
    make(waiting_for="guard:1")
    make(job="unknown")
    assert claims.pick([], [JOB], 10) == [high.id, old.id, new.id, low.id]
    assert claims.pick([], [JOB], 2) == [high.id, old.id]


def test_only_the_queues_that_were_asked_for_are_picked() -> None:
    # B15
    one = make(queue="one")
    make(queue="two")
    assert claims.pick(["one", "three"], [JOB], 10) == [one.id]


def test_a_claim_takes_exactly_what_it_names() -> None:
    # B9
    runs = [make() for _ in range(30)]
    make(job="unknown")
    taken = claims.claim([run.id for run in runs[:10]], "node", [JOB])
    assert [claim.id for claim in taken] == [run.id for run in runs[:10]]
    assert Run.objects.filter(status="running").count() == 10


@pytest.mark.parametrize("flag", ["hashjoin", "mergejoin", "seqscan", "indexscan", "material"])
def test_no_plan_makes_a_claim_take_more(flag: str) -> None:
    # B9: some plans repeat a subquery per row, and with it its LIMIT
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL's planner can be told what not to use")
    runs = [make() for _ in range(200)]
    with connection.cursor() as cursor:
        cursor.execute(f"SET enable_{flag} = off; SET enable_hashjoin = off")
        cursor.execute("SET enable_mergejoin = off")
    try:
        taken = claims.claim(claims.pick([], [JOB], 10), "node", [JOB])
    finally:
        connection.close()
    assert len(taken) == 10
    assert Run.objects.filter(status="running").count() == 10
    assert {claim.id for claim in taken} <= {run.id for run in runs}


def test_a_claim_leaves_what_is_not_to_be_had() -> None:
    # B9
    free = make()
    others = [
        make(status="running"),
        make(status="cancelled"),
        make(job="unknown"),
        make(run_at=clock.now() + dt.timedelta(hours=1)),
        make(waiting_for="gate:x"),
        make(job="limited", gate="limited:"),
    ]
    taken = claims.claim([*(run.id for run in others), free.id, uuid.uuid4()], "node", [JOB])
    assert [claim.id for claim in taken] == [free.id]


def test_a_claim_carries_all_that_a_worker_needs() -> None:
    # B9
    run = make(input={"a": [1, "ä"]}, max_attempts=3, timeout_seconds=5.5, priority=4, depth=2)
    (claim,) = claims.claim([run.id], "node", [JOB])
    run.refresh_from_db()
    assert claim.input == {"a": [1, "ä"]}
    assert (claim.max_attempts, claim.timeout_seconds, claim.depth) == (3, 5.5, 2)
    assert claim.started_at == run.started_at
    assert (run.status, run.node, run.attempt, run.token) == ("running", "node", 1, 1)


def test_a_run_beside_a_running_one_of_its_schedule_is_left() -> None:
    # A11
    make(status="running", guard=7)
    blocked, free = make(guard=7), make(guard=8)
    taken = claims.claim([blocked.id, free.id], "node", [JOB])
    assert [claim.id for claim in taken] == [free.id]


def test_of_two_runs_of_one_schedule_one_is_taken() -> None:
    # A11
    runs = [make(guard=7) for _ in range(3)]
    assert len(claims.claim([run.id for run in runs], "node", [JOB])) == 1
    assert Run.objects.filter(status="running").count() == 1


def in_threads(count: int, work: Any) -> list[Any]:
    """Do it at the same time, each with a connection of its own."""
    start, found, errors = threading.Barrier(count), [], []

    def one(number: int) -> None:
        try:
            start.wait(30)
            found.append(work(number))
        except Exception as error:  # noqa: BLE001  # raised again below
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return found


def test_of_many_who_claim_the_same_each_run_goes_to_one() -> None:
    # B9; W2
    ids = [make().id for _ in range(60)]

    def work(number: int) -> list[uuid.UUID]:
        order = ids if number % 2 else list(reversed(ids))
        mine = []
        for i in range(0, 60, 10):
            mine += [c.id for c in claims.claim(order[i : i + 10], f"node-{number}", [JOB])]
        return mine

    taken = Counter(run_id for mine in in_threads(4, work) for run_id in mine)
    assert set(taken) <= set(ids)
    assert set(taken.values()) <= {1}
    assert set(Run.objects.values_list("token", flat=True)) <= {0, 1}
    assert Run.objects.filter(status="running").count() == len(taken)


def test_of_many_who_claim_runs_of_one_schedule_one_succeeds() -> None:
    # A11
    ids = [make(guard=7).id for _ in range(8)]
    found = in_threads(4, lambda n: claims.claim(ids[2 * n : 2 * n + 2], f"node-{n}", [JOB]))
    assert sum(len(one) for one in found) == 1
    assert Run.objects.filter(status="running").count() == 1


def test_a_cancel_and_a_completion_at_the_same_time_have_one_winner() -> None:
    # B8
    for _ in range(10):
        run = make("running", token=1)
        claim = claim_of(run)

        def work(number: int, run: Run = run, claim: claims.Claim = claim) -> bool:
            if number:
                return cancels.cancel(run.id, reason="", by="").cancelled
            return bool(record(claim, State.COMPLETED).accepted)

        assert sorted(in_threads(2, work)) == [False, True]
        run.refresh_from_db()
        assert run.status in {"cancelled", "completed"}
        assert [a.outcome for a in run.attempts.all()] == [run.status]


def test_a_run_that_waits_for_its_schedule_is_let_go_when_that_ends() -> None:
    # A11
    running, first, second = make(status="running", guard=7, token=1), make(guard=7), make(guard=7)
    assert waiting.park_behind_guard([second.id, first.id]) == 2
    assert claims.pick([], [JOB], 10) == []
    recorded = record(claim_of(running), State.COMPLETED)
    assert [row.id for row in recorded.promoted] == [first.id]
    assert claims.pick([], [JOB], 10) == [first.id]


@pytest.mark.parametrize("status", [State.FAILED, State.SUBMITTED, State.CANCELLED])
def test_however_a_run_ends_the_next_one_is_let_go(status: State) -> None:
    # A11
    running, follower = make(status="running", guard=7, token=1), make(guard=7)
    waiting.park_behind_guard([follower.id])
    later = clock.now() + dt.timedelta(hours=1)
    recorded = record(claim_of(running), status, run_at=later)
    assert [row.id for row in recorded.promoted] == [follower.id]


def test_nothing_waits_behind_a_schedule_that_is_free() -> None:
    # A11
    run = make(guard=7)
    assert waiting.park_behind_guard([run.id]) == 0
    assert claims.pick([], [JOB], 10) == [run.id]


def test_what_waits_for_nothing_is_let_go_by_the_reconciler() -> None:
    # C4
    make(status="running", guard=8)
    stuck = make(guard=7, waiting_for=waiting.guard_name(7))
    still = make(guard=8, waiting_for=waiting.guard_name(8))
    gated = make(gate="x", waiting_for=waiting.gate_name("x"))
    assert {row.id for row in waiting.release_free()} == {stuck.id, gated.id}
    still.refresh_from_db()
    assert still.waiting_for == waiting.guard_name(8)


def test_everything_that_is_waited_for_is_found_once() -> None:
    # A11, B15: more than MySQL finds with one statement
    names = [f"gate:{number:04}" for number in range(1100)]
    Run.objects.bulk_create(
        Run(job=JOB, run_at=clock.now(), submitted_at=clock.now(), waiting_for=name)
        for name in [*names, *names[:50]]
    )
    make(waiting_for=waiting.guard_name(7))
    make("cancelled", waiting_for=waiting.HANDLER)
    assert waiting.names_waited_for() == [*names, "guard:7"]


def test_nobody_is_passed_over_for_ever_where_very_much_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A11
    monkeypatch.setattr(waiting, "_SWEEP_LIMIT", 2)
    for number in range(4):
        make(waiting_for=f"gate:{number}")
        make(waiting_for=f"gate:{number}")
    last = make(guard=7, waiting_for=waiting.guard_name(7))
    for _ in range(1000):
        if last.id in {row.id for row in waiting.release_free()}:
            break
    last.refresh_from_db()
    assert last.waiting_for is None


def test_a_rolled_back_ending_lets_nobody_go() -> None:
    # A11
    running, follower = make(status="running", guard=7, token=1), make(guard=7)
    waiting.park_behind_guard([follower.id])
    with pytest.raises(RuntimeError), transaction.atomic():
        record(claim_of(running), State.COMPLETED)
        raise RuntimeError
    follower.refresh_from_db()
    assert follower.waiting_for is not None
