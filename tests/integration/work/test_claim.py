"""What a worker makes of the ids it was given, when its code and the stored rows differ."""

from __future__ import annotations

import pytest

from sync_scheduler.models import Run
from sync_scheduler.store import waiting
from sync_scheduler.store.waiting import gate_name
from sync_scheduler.work import claim
from tests.integration.store.runs import make
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)


def poll(count: int = 10) -> list[object]:
    return [one.id for one in claim.poll([], count, "node", claim.known())]


def test_a_limit_that_is_gone_holds_nobody() -> None:
    # B15
    limited = [make(job="tests.noted", gate="tests.noted:") for _ in range(3)]
    others = [make(job="tests.noop") for _ in range(3)]
    assert poll(3) == [run.id for run in limited]
    assert poll(3) == [run.id for run in others]


def test_who_waits_for_a_limit_that_is_gone_is_let_go() -> None:
    # B15
    parked = [
        make(job="tests.noted", gate="tests.noted:", waiting_for=gate_name("tests.noted:"))
        for _ in range(3)
    ]
    held = make(job="tests.limited", gate="g", waiting_for=gate_name("g"))
    guarded = make(job="tests.noted", guard=7, waiting_for=waiting.guard_name(7))
    claim.release_unlimited()
    assert poll() == [run.id for run in parked]
    still = Run.objects.filter(waiting_for__isnull=False).values_list("id", flat=True)
    assert set(still) == {held.id, guarded.id}


def test_a_new_limit_holds_for_runs_that_are_older() -> None:
    # B15
    runs = [make(job="tests.limited", input={"path": "x"}) for _ in range(4)]
    later = jobs.limited.submit(path="x")
    assert poll() == [run.id for run in runs[:2]]
    gate = gate_name("tests.limited:")
    parked = Run.objects.filter(waiting_for=gate).values_list("id", flat=True)
    assert set(parked) == {runs[2].id, runs[3].id, later.id}


def test_a_new_limit_counts_older_runs_by_the_value_of_their_input() -> None:
    # B15
    one, again, other = (
        make(job="tests.per_tenant", input={"tenant": tenant, "path": "x"})
        for tenant in ("one", "one", "two")
    )
    assert set(poll()) == {one.id, other.id}
    again.refresh_from_db()
    assert again.waiting_for == gate_name("tests.per_tenant:one")


def test_an_older_run_whose_limit_cannot_be_found_is_limited_all_the_same() -> None:
    # B15: its job's function raises for it
    runs = [make(job="tests.picky") for _ in range(2)]
    assert poll() == [runs[0].id]
