"""Limits across the cluster: how many at once, and how often."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock
from sync_scheduler.jobs.limits import parse_rate
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Gate, Run
from sync_scheduler.store import claims, gates, waiting
from sync_scheduler.store.gates import Limit
from sync_scheduler.store.locking import database_now
from tests.integration.store.runs import JOB, claim_of, make, record
from tests.integration.store.test_claims import in_threads
from tests.services.server import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

TWO = {JOB: Limit(concurrency=2, rate=None)}


def ids(runs: list[Run]) -> list[object]:
    return [run.id for run in runs]


def test_so_many_pass_and_the_others_wait() -> None:
    # B15
    runs = [make(gate="g") for _ in range(5)]
    passed = gates.claim_through_gates([run.id for run in runs], "node", TWO)
    assert [claim.id for claim in passed.claims] == ids(runs[:2])
    assert set(Run.objects.filter(waiting_for="gate:g").values_list("id", flat=True)) == set(
        ids(runs[2:])
    )


def test_gates_do_not_count_each_other() -> None:
    # B15
    runs = [make(gate=f"g:{i % 3}") for i in range(9)]
    passed = gates.claim_through_gates([run.id for run in runs], "node", TWO)
    assert len(passed.claims) == 6


def test_each_end_lets_one_more_in_and_the_most_urgent_first() -> None:
    # B15
    runs = [make(gate="g") for _ in range(4)]
    urgent = make(gate="g", priority=9)
    Run.objects.filter(id=urgent.id).update(waiting_for=waiting.gate_name("g"))
    passed = gates.claim_through_gates([run.id for run in runs], "node", TWO)
    recorded = record(passed.claims[0], State.COMPLETED)
    assert [row.id for row in recorded.promoted] == [urgent.id]
    assert len(gates.claim_through_gates([urgent.id], "node", TWO).claims) == 1


def test_nodes_that_ask_at_the_same_time_do_not_pass_the_limit() -> None:
    # B15
    runs = [make(gate="g") for _ in range(12)]

    def work(number: int) -> int:
        mine = [run.id for run in runs[3 * number : 3 * number + 3]]
        return len(gates.claim_through_gates(mine, f"node-{number}", TWO).claims)

    assert sum(in_threads(4, work)) == 2
    assert Run.objects.filter(status="running").count() == 2


def test_nodes_that_ask_for_the_same_runs_get_each_of_them_once() -> None:
    # B9, B15
    many = {JOB: Limit(concurrency=50, rate=None)}
    for _ in range(5):
        runs = [make(gate="g") for _ in range(8)]
        asked = [run.id for run in runs]
        found = in_threads(
            3, lambda n, asked=asked: gates.claim_through_gates(asked, f"node-{n}", many).claims
        )
        taken = [claim.id for claims_ in found for claim in claims_]
        assert sorted(taken) == sorted(asked)


def test_a_run_that_is_not_due_does_not_pass() -> None:
    # B13, B15
    run = make(gate="g", run_at=clock.now() + dt.timedelta(hours=1))
    assert gates.claim_through_gates([run.id], "node", TWO).claims == ()


def test_nobody_waits_for_ever_when_a_run_ends_while_another_is_put_to_wait() -> None:
    # B15: either the one that asks sees the room, or the one that ends sees it waiting
    one = {JOB: Limit(concurrency=1, rate=None)}
    # Whatever runs behind a gate has come through it, so that the gate is there.
    gates.claim_through_gates([make(gate="g").id], "node", one)
    for _ in range(15):
        Run.objects.all().delete()
        holder, asking = make("running", token=1, gate="g"), make(gate="g")
        claim = claim_of(holder)

        def work(number: int, asking: Run = asking, claim: claims.Claim = claim) -> None:
            if number:
                gates.claim_through_gates([asking.id], "node", one)
            else:
                record(claim, State.COMPLETED)

        in_threads(2, work)
        asking.refresh_from_db()
        assert asking.status == "running" or asking.waiting_for is None


def test_a_run_that_must_not_overlap_does_not_pass_beside_another() -> None:
    # A11, B15
    make("running", token=1, guard=7)
    run = make(gate="g", guard=7)
    assert gates.claim_through_gates([run.id], "node", TWO).claims == ()


def test_jobs_that_this_node_does_not_know_are_left_alone() -> None:
    # B15
    run = make(gate="g", job="unknown")
    assert gates.claim_through_gates([run.id], "node", TWO).claims == ()
    run.refresh_from_db()
    assert run.waiting_for is None


def test_starts_beyond_the_rate_are_put_off() -> None:
    # B15
    limit = {JOB: Limit(concurrency=None, rate=parse_rate("3/h"))}
    runs = [make(gate="g") for _ in range(8)]
    before = database_now()
    passed = gates.claim_through_gates([run.id for run in runs], "node", limit)
    assert len(passed.claims) == 3
    assert [run_id for run_id, _ in passed.delayed] == ids(runs[3:])
    starts = [start for _, start in passed.delayed]
    assert before + dt.timedelta(hours=1) <= starts[0] <= database_now() + dt.timedelta(hours=1)
    # One behind the other, or all would come back for the same places.
    behind = starts[0] + dt.timedelta(hours=1)
    assert starts == [starts[0]] * 3 + [behind] * 2
    for run_id, start in passed.delayed:
        assert Run.objects.get(id=run_id).run_at == start
    assert claims.pick([], [JOB], 10) == []


def test_a_start_counts_for_a_whole_period() -> None:
    # B15
    limit = {JOB: Limit(concurrency=None, rate=parse_rate("3/h"))}

    def pass_all() -> int:
        more = [make(gate="g").id for _ in range(5)]
        return len(gates.claim_through_gates(more, "node", limit).claims)

    def wait(minutes: int) -> None:
        gate = Gate.objects.get()
        assert gate.starts is not None
        Gate.objects.update(starts=[[at - minutes * 60_000_000, n] for at, n in gate.starts])

    assert pass_all() == 3
    wait(59)
    assert pass_all() == 0
    wait(1)
    assert pass_all() == 3


def test_nodes_that_ask_at_the_same_time_do_not_start_too_many() -> None:
    # B15
    limit = {JOB: Limit(concurrency=None, rate=parse_rate("4/h"))}
    runs = [make(gate="g") for _ in range(12)]

    def work(number: int) -> int:
        mine = [run.id for run in runs[3 * number : 3 * number + 3]]
        return len(gates.claim_through_gates(mine, f"node-{number}", limit).claims)

    assert sum(in_threads(4, work)) == 4


def test_what_was_put_off_starts_when_its_time_has_come() -> None:
    # B15: and is not put off again by a rounding
    limit = {JOB: Limit(concurrency=None, rate=parse_rate("2/s"))}
    runs = [make(gate="g").id for _ in range(4)]
    passed = gates.claim_through_gates(runs, "node", limit)
    starts = dict(passed.delayed)
    assert set(starts) == set(runs[2:])
    wait_until(
        lambda: database_now() >= max(starts.values()), seconds=30, what="the second is over"
    )
    assert len(gates.claim_through_gates(runs[2:], "node", limit).claims) == 2
