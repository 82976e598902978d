"""Every verb against every state, and against attempts that are over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from sync_scheduler import clock, lifecycle
from sync_scheduler.errors import LeaseLost
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, DeadLetter, Node, Run, Step
from sync_scheduler.store import cancels, claims, nodes, outcomes, progress, steps
from sync_scheduler.store.nodes import Silence
from tests.integration.store.runs import JOB, claim_of, ending, make, record

pytestmark = pytest.mark.django_db(transaction=True)

Verb = Callable[[Run], object]


def _end(status: State) -> Verb:
    return lambda run: record(claim_of(run), status, run_at=clock.now())


VERBS: dict[str, tuple[Verb, State]] = {
    "claim": (lambda run: claims.claim([run.id], "node-b", [JOB]), State.RUNNING),
    "complete": (_end(State.COMPLETED), State.COMPLETED),
    "fail": (_end(State.FAILED), State.FAILED),
    "time out": (_end(State.TIMED_OUT), State.TIMED_OUT),
    "end as cancelled": (_end(State.CANCELLED), State.CANCELLED),
    "retry": (_end(State.SUBMITTED), State.SUBMITTED),
    "cancel": (lambda run: cancels.cancel(run.id, reason="", by=""), State.CANCELLED),
    "take back": (
        lambda run: nodes.take_back(Silence(node="node-a", seconds=1e9)),
        State.SUBMITTED,
    ),
}
# Which state each verb works on; everything else must stay exactly as it was.
FROM = {
    "claim": {State.SUBMITTED},
    "complete": {State.RUNNING},
    "fail": {State.RUNNING},
    "time out": {State.RUNNING},
    "end as cancelled": {State.RUNNING},
    "retry": {State.RUNNING},
    "cancel": {State.SUBMITTED, State.RUNNING},
    "take back": {State.RUNNING},
}


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize("state", list(State))
def test_a_verb_moves_the_states_it_is_for_and_no_other(state: State, verb: str) -> None:
    # B2
    run = make(state.value)
    before = Run.objects.filter(id=run.id).values().get()
    act, target = VERBS[verb]
    act(run)
    after = Run.objects.filter(id=run.id).values().get()
    if state in FROM[verb]:
        assert after["status"] == target
        assert lifecycle.may_follow(state, target)
        assert (after["finished_at"] is not None) == (target in lifecycle.TERMINAL)
    else:
        assert after == before
        assert not Attempt.objects.exists()
        assert not DeadLetter.objects.exists()


@pytest.mark.parametrize("status", [s for s in State if s is not State.SKIPPED])
def test_an_attempt_that_is_over_can_change_nothing(status: State) -> None:
    # B9
    if status is State.RUNNING:
        return
    run = make("running", token=2, node="node-b")
    recorded = record(claim_of(run, token=1), status, run_at=clock.now())
    assert recorded.accepted == frozenset()
    run.refresh_from_db()
    assert (run.status, run.node, run.token) == ("running", "node-b", 2)
    assert not Attempt.objects.exists()


def test_an_attempt_that_is_over_can_store_no_step() -> None:
    # B9
    run = make("running", token=2)
    with pytest.raises(LeaseLost):
        steps.remember(run.id, "first", 1, attempt=1, token=1)
    assert not Step.objects.exists()
    steps.remember(run.id, "first", {"a": 1}, attempt=1, token=2)
    assert steps.recall(run.id, "first") == (True, {"a": 1})
    assert steps.recall(run.id, "second") == (False, None)


def test_a_step_may_have_no_result() -> None:
    # B4
    run = make("running", token=1)
    steps.remember(run.id, "first", None, attempt=1, token=1)
    assert steps.recall(run.id, "first") == (True, None)


def test_an_attempt_that_is_over_can_show_no_progress() -> None:
    # B9
    run = make("running", token=2)
    for token in (1, 2):
        progress.record(
            [
                progress.Progress(
                    run_id=run.id,
                    token=token,
                    attempt=1,
                    node="node-a",
                    at=clock.now(),
                    progress=token / 10,
                    message=str(token),
                    touch_run=True,
                )
            ]
        )
        run.refresh_from_db()
        assert run.progress == (None if token == 1 else 0.2)


def test_an_outcome_is_recorded_once() -> None:
    # B2; W6
    run = make("running", token=1)
    claim = claim_of(run)
    assert record(claim, State.COMPLETED, result={"n": 1}).accepted == {run.id}
    assert record(claim, State.FAILED, error="late").accepted == frozenset()
    run.refresh_from_db()
    assert (run.status, run.result, run.error) == ("completed", {"n": 1}, "")
    assert Attempt.objects.count() == 1


def test_a_batch_of_outcomes_is_recorded_together_without_what_is_over() -> None:
    # B9
    runs = [make("running", token=1) for _ in range(50)]
    claimed = [claim_of(run) for run in runs]
    Run.objects.filter(id__in=[run.id for run in runs[::5]]).update(token=2)
    recorded = outcomes.record(
        [
            ending(claim, State.COMPLETED if i % 2 else State.FAILED, error=f"error {i}")
            for i, claim in enumerate(claimed)
        ]
    )
    assert recorded.accepted == {run.id for i, run in enumerate(runs) if i % 5}
    assert Run.objects.filter(status="running").count() == 10
    assert Attempt.objects.count() == 40
    assert DeadLetter.objects.count() == sum(1 for i in range(50) if i % 5 and not i % 2)


def test_every_claim_has_a_new_token_and_one_more_attempt() -> None:
    # B9; W4
    run = make()
    for number in (1, 2, 3):
        (claim,) = claims.claim([run.id], f"node-{number}", [JOB])
        assert (claim.attempt, claim.token) == (number, number)
        record(claim, State.SUBMITTED, run_at=clock.now())
    (claim,) = claims.claim([run.id], "node", [JOB])
    # What is given back is not charged, but its token is used up.
    record(claim, State.SUBMITTED, run_at=clock.now(), refund=1)
    (claim,) = claims.claim([run.id], "node", [JOB])
    assert (claim.attempt, claim.token) == (4, 5)


def test_a_failure_is_kept_among_the_dead_letters_and_a_retry_is_not() -> None:
    # B1
    run = make("running", token=1)
    record(claim_of(run), State.SUBMITTED, error="once", run_at=clock.now())
    assert not DeadLetter.objects.exists()
    (claim,) = claims.claim([run.id], "node", [JOB])
    record(claim, State.FAILED, error="E: for good", reason="E: for good")
    letter = DeadLetter.objects.get()
    assert (letter.run_id, letter.kind, letter.reason) == (run.id, "run", "E: for good")


def silence_of(name: str, seconds: float) -> None:
    now = clock.now()
    Node.objects.create(
        name=name,
        host="h",
        pid=1,
        started_at=now,
        heartbeat_at=now - dt.timedelta(seconds=seconds),
    )


def test_only_the_runs_of_silent_nodes_are_taken_back() -> None:
    # C1
    silence_of("alive", 1)
    silence_of("silent", 60)
    claimed_at = clock.now() - dt.timedelta(hours=1)
    for name in ("alive", "silent", "vanished"):
        make("running", node=name, started_at=claimed_at)
    found = {one.node: one.seconds for one in nodes.silences()}
    assert found["alive"] < 30 < found["silent"] < found["vanished"]


def test_a_claim_is_a_sign_of_life() -> None:
    # C2: its pulse is late on a busy machine, but it has just begun something
    silence_of("busy", 60)
    for seconds in (90, 1):
        make("running", node="busy", started_at=clock.now() - dt.timedelta(seconds=seconds))
    (found,) = nodes.silences()
    assert found.seconds < 30


def test_a_run_is_taken_back_when_its_own_lease_is_over() -> None:
    # B9
    short = make("running", token=1, lease_seconds=10)
    usual = make("running", token=1)
    long = make("running", token=1, lease_seconds=600)
    assert nodes.take_back(Silence(node="node-a", seconds=5)).accepted == frozenset()
    assert nodes.take_back(Silence(node="node-a", seconds=20)).accepted == {short.id}
    assert nodes.take_back(Silence(node="node-a", seconds=45)).accepted == {usual.id}
    assert nodes.take_back(Silence(node="node-a", seconds=601)).accepted == {long.id}


def test_many_runs_are_taken_back_in_pages() -> None:
    # C1; W11
    now = clock.now()
    Run.objects.bulk_create(
        Run(
            job=JOB,
            run_at=now,
            submitted_at=now,
            status="running",
            node="node-a",
            token=1,
            attempt=1,
            started_at=now,
            lease_seconds=600 if i % 3 == 0 else None,
        )
        for i in range(1200)
    )
    taken = nodes.take_back(Silence(node="node-a", seconds=60)).accepted
    assert len(taken) == 800
    assert Run.objects.filter(status="running").count() == 400


def test_the_first_loss_of_a_node_charges_nothing_and_the_next_ones_do() -> None:
    # B9
    run = make()
    for losses, (attempt, crashes, status) in enumerate(
        [(0, 0, "submitted"), (1, 1, "submitted"), (2, 2, "submitted"), (3, 3, "failed")]
    ):
        claims.claim([run.id], "node-a", [JOB])
        nodes.take_back(Silence(node="node-a", seconds=1e9))
        run.refresh_from_db()
        assert (run.attempt, run.crashes, run.status) == (attempt, crashes, status), losses
        assert run.suspect
    assert run.reason == "crashed"
    assert Attempt.objects.filter(run=run, outcome="lost").count() == 4


def test_a_node_enters_beats_and_leaves() -> None:
    # C1
    facts = nodes.NodeFacts(
        name="n", host="h", pid=5, roles="work", version="1", tzdata="x",
        queues=("a",), jobs=("j",), slots=4,
    )  # fmt: skip
    assert not nodes.beat("n", running=1, clock_offset=0.0)
    nodes.enter(facts)
    nodes.enter(facts)
    assert nodes.beat("n", running=3, clock_offset=0.5)
    node = Node.objects.get()
    assert (node.running, node.clock_offset, node.queues) == (3, 0.5, ["a"])
    nodes.leave("n")
    make("running", node="n")
    assert nodes.silences()[0].seconds == float("inf")


def test_what_a_node_holds_is_what_the_database_says() -> None:
    # B9
    mine = make("running", node="n", token=4)
    make("running", node="other")
    make("completed", node="n")
    assert nodes.holdings("n") == {mine.id: 4}
