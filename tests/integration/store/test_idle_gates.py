"""Limits that nothing counts against any more leave no row behind."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.jobs.limits import parse_rate
from sync_scheduler.models import Gate, Run
from sync_scheduler.store import gates, installation, pruning, waiting
from sync_scheduler.store.gates import Limit
from tests.integration.store.runs import JOB, make
from tests.integration.store.test_claims import in_threads

pytestmark = pytest.mark.django_db(transaction=True)

ONE = {JOB: Limit(concurrency=1, rate=None)}


def enter(*names: str) -> list[Run]:
    """Runs that pass these gates."""
    runs = [make(gate=name) for name in names]
    assert len(gates.claim_through_gates([run.id for run in runs], "node", ONE).claims) == len(runs)
    return runs


def left() -> set[str]:
    return set(Gate.objects.values_list("name", flat=True))


def test_only_gates_of_which_no_place_is_taken_go() -> None:
    # B10, B15
    ended, running, lingering, waited_for = enter("ended", "running", "lingering", "waited for")
    Run.objects.filter(id__in=[ended.id, waited_for.id]).update(status="completed")
    Run.objects.filter(id=lingering.id).update(status="cancelled", waiting_for=waiting.HANDLER)
    make(gate="waited for", waiting_for=waiting.gate_name("waited for"))
    own = installation.identify()

    Pruner().prune(clock.now())
    assert left() == {"running", "lingering", "waited for", f"installation/{own}"}
    assert installation.identify() == own
    Run.objects.filter(id=running.id).update(status="completed")
    Pruner().prune(clock.now())
    assert "running" not in left()


def test_a_gate_stays_while_a_start_may_count() -> None:
    # B15: up to a day, the longest period of a rate
    limit = {JOB: Limit(concurrency=None, rate=parse_rate("1/d"))}
    gates.claim_through_gates([make(gate="g").id], "node", limit)
    Run.objects.update(status="completed")
    now = clock.now()

    Pruner().prune(now + dt.timedelta(hours=23))
    assert gates.claim_through_gates([make(gate="g").id], "node", limit).claims == ()
    Pruner().prune(now + dt.timedelta(hours=25))
    assert left() == set()


def test_whoever_comes_to_a_gate_that_has_gone_makes_it_anew() -> None:
    # B15
    enter("g")
    Run.objects.update(status="completed")
    Pruner().prune(clock.now())
    runs = [make(gate="g") for _ in range(3)]
    assert len(gates.claim_through_gates([run.id for run in runs], "node", ONE).claims) == 1
    assert left() == {"g"}


def test_all_gates_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # B10
    monkeypatch.setattr(pruning, "_GATES", 2)
    enter(*(f"g{i}" for i in range(5)))
    Run.objects.filter(gate__in=["g0", "g2", "g4"]).update(status="completed")
    Pruner().prune(clock.now())
    assert left() == {"g1", "g3"}


def test_who_passes_while_gates_go_keeps_the_limit() -> None:
    # B15
    for _ in range(15):
        Run.objects.all().delete()
        runs = [make(gate="g") for _ in range(9)]

        def work(number: int, runs: list[Run] = runs) -> int:
            if number == 3:
                for _ in range(5):
                    pruning.delete_gates(clock.now())
                return 0
            mine = [run.id for run in runs[3 * number : 3 * number + 3]]
            return len(gates.claim_through_gates(mine, f"node-{number}", ONE).claims)

        assert sum(in_threads(4, work)) == 1
        assert Run.objects.filter(status="running").count() == 1
        # Whoever waits is found by the end of the one that runs.
        assert Run.objects.filter(waiting_for="gate:g").count() == 8
        assert left() == {"g"}
        Run.objects.update(status="completed", waiting_for=None)
        pruning.delete_gates(clock.now())
