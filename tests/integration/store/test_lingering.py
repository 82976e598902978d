"""A cancelled Run keeps its place until its handler has ended."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Gate, Node, Run
from sync_scheduler.store import cancels, claims, gates, lingering, nodes, pruning, waiting
from sync_scheduler.store.gates import Limit
from sync_scheduler.store.nodes import Silence
from sync_scheduler.store.pruning import Span
from tests.integration.store.runs import JOB, claim_of, make, record
from tests.integration.store.test_claims import in_threads

pytestmark = pytest.mark.django_db(transaction=True)

ONE = {JOB: Limit(concurrency=1, rate=None)}


def cancelled(**values: Any) -> tuple[Run, claims.Claim]:
    run = make("running", token=1, **values)
    claim = claim_of(run)
    done = cancels.cancel(run.id, reason="", by="")
    assert (done.cancelled, done.was_running) == (True, True)
    run.refresh_from_db()
    assert run.status == "cancelled"
    return run, claim


def may_start(run: Run) -> bool:
    if run.gate is not None:
        return bool(gates.claim_through_gates([run.id], "node", ONE).claims)
    return bool(claims.claim([run.id], "node", [JOB]))


@pytest.mark.parametrize("how", [{"gate": "g"}, {"guard": 7}, {"gate": "g", "guard": 7}])
@pytest.mark.parametrize("end", [State.COMPLETED, State.FAILED, State.CANCELLED, State.SUBMITTED])
def test_the_place_is_free_when_the_handler_has_ended(how: dict[str, Any], end: State) -> None:
    # A11, B8, B15
    run, claim = cancelled(**how)
    follower = make(**how)
    assert not may_start(follower)
    waiting.park_behind_guard([follower.id])
    follower.refresh_from_db()
    assert follower.waiting_for is not None

    recorded = record(claim, end)
    assert recorded.accepted == frozenset()
    assert [row.id for row in recorded.promoted] == [follower.id]
    assert may_start(follower)
    run.refresh_from_db()
    assert (run.status, run.waiting_for) == ("cancelled", None)
    assert Attempt.objects.get(run=run).outcome == "cancelled"


@pytest.mark.parametrize("how", [{"gate": "g"}, {"guard": 7}])
def test_who_is_next_takes_the_place_of_a_run_that_is_cancelled_before_it_starts(
    how: dict[str, Any],
) -> None:
    # A11: it was let go, and whoever waits behind it waited for its end
    name = waiting.gate_name("g") if "gate" in how else waiting.guard_name(7)
    first = make(**how)
    second, third = (make(waiting_for=name, **how) for _ in range(2))
    done = cancels.cancel(first.id, reason="", by="")
    assert [row.id for row in done.promoted] == [second.id]
    assert cancels.cancel(third.id, reason="", by="").promoted == ()
    assert may_start(second)


def test_two_of_a_batch_are_kept_behind_the_guard_of_a_cancelled_run() -> None:
    # A11: claimed together and not one by one
    cancelled(guard=7)
    behind, free = [make(guard=7) for _ in range(2)], make()
    taken = claims.claim([*(run.id for run in behind), free.id], "node", [JOB])
    assert [claim.id for claim in taken] == [free.id]


def test_an_attempt_that_is_over_does_not_give_up_the_place_of_the_next() -> None:
    # B9: taken away, begun again elsewhere, and cancelled there
    run = make("running", token=2, gate="g")
    cancels.cancel(run.id, reason="", by="")
    recorded = record(claim_of(run, token=1), State.COMPLETED)
    assert recorded.promoted == ()
    assert not may_start(make(gate="g"))


def test_a_run_without_a_place_waits_for_nothing() -> None:
    # B8
    run, _ = cancelled()
    assert run.waiting_for is None
    waiting_one = make(gate="g", waiting_for=waiting.gate_name("g"))
    cancels.cancel(waiting_one.id, reason="", by="")
    waiting_one.refresh_from_db()
    assert waiting_one.waiting_for is None


def test_the_reconciler_lets_nobody_pass_a_handler_that_is_at_work() -> None:
    # A11, C4
    cancelled(guard=7)
    make(guard=7, waiting_for=waiting.guard_name(7))
    assert waiting.release_free() == []


@pytest.mark.parametrize("seconds", [60.0, float("inf")])
def test_the_places_of_a_lost_node_are_free(seconds: float) -> None:
    # B8, B10
    cancelled(gate="g", lease_seconds=None)
    follower = make(gate="g")
    assert not may_start(follower)
    assert [found.node for found in nodes.silences()] == ["node-a"]
    assert nodes.take_back(Silence(node="node-a", seconds=5)).promoted == ()
    taken = nodes.take_back(Silence(node="node-a", seconds=seconds))
    assert [row.id for row in taken.promoted] == [follower.id]
    assert may_start(follower)
    assert nodes.silences() == [] or nodes.silences()[0].node == "node"


def test_a_place_that_is_kept_is_not_pruned() -> None:
    # B15
    _, claim = cancelled(gate="g")
    later = Span(until=clock.now() + dt.timedelta(days=1))
    assert pruning.delete_runs(later) == 0
    record(claim, State.CANCELLED)
    assert pruning.delete_runs(later) == 1


def test_a_node_is_asked_for_what_it_should_be_executing() -> None:
    # B8
    run, claim = cancelled(gate="g")
    Node.objects.all().delete()
    assert [one.id for one in lingering.of_node("node-a")] == [run.id]
    assert lingering.of_node("node-b") == []
    record(claim, State.SUBMITTED)
    assert lingering.of_node("node-a") == []


def test_nobody_waits_for_ever_when_a_cancelled_handler_ends_meanwhile() -> None:
    # B15: either the one that asks sees the room, or the one that ends sees it waiting
    Gate.objects.create(name="g")
    for _ in range(15):
        Run.objects.all().delete()
        Attempt.objects.all().delete()
        _, claim = cancelled(gate="g")
        asking = make(gate="g")

        def work(number: int, asking: Run = asking, claim: claims.Claim = claim) -> None:
            if number:
                gates.claim_through_gates([asking.id], "node", ONE)
            else:
                record(claim, State.CANCELLED)

        in_threads(2, work)
        asking.refresh_from_db()
        assert asking.status == "running" or asking.waiting_for is None
