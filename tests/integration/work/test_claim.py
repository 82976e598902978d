"""What a worker makes of the ids it was given, when its code and the stored rows differ."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import pytest
from django.db import DataError, IntegrityError, InterfaceError, OperationalError

from sync_scheduler.models import Gate, Run
from sync_scheduler.store import claims, gates, waiting
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


def test_runs_of_a_long_key_are_limited_like_others() -> None:
    # B15
    tenant = "x" * 400
    runs = [jobs.per_tenant.submit(tenant=tenant + end, path="x") for end in "aab"]
    free = jobs.noop.submit()
    assert set(poll()) == {runs[0].id, runs[2].id, free.id}
    assert Run.objects.filter(waiting_for__startswith="gate:").count() == 1


def test_what_was_claimed_is_handed_on_whatever_happens_to_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B9
    free, limited = jobs.noop.submit(), jobs.limited.submit(path="x")

    def broken(*args: object) -> None:
        raise OperationalError("the server is gone")

    monkeypatch.setattr(gates, "_locked_gate", broken)
    assert poll() == [free.id]
    # With nothing in hand the error is the caller's to know.
    with pytest.raises(OperationalError):
        poll()
    limited.refresh_from_db()
    assert limited.status == "submitted"


@pytest.mark.parametrize("error", [OperationalError("gone"), DataError("too long")])
def test_who_has_passed_a_gate_is_handed_on_when_the_next_one_fails(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    # B9, B15
    first, second, third = (jobs.per_tenant.submit(tenant=t, path="x") for t in "abc")
    real = gates._locked_gate

    def one_is_broken(name: str) -> Gate:
        if name.endswith(":b"):
            raise error
        return real(name)

    monkeypatch.setattr(gates, "_locked_gate", one_is_broken)
    expected = {first.id} if isinstance(error, OperationalError) else {first.id, third.id}
    assert set(poll()) == expected
    second.refresh_from_db()
    assert second.status == "submitted"


def test_runs_that_were_claimed_one_by_one_are_handed_on_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B9: another node has started a run of the same schedule at this moment
    runs = [jobs.noop.submit() for _ in range(3)]
    real = claims._claim

    def meets_trouble(
        ids: Sequence[uuid.UUID], node: str, known: Collection[str]
    ) -> list[claims.Claim]:
        if len(ids) > 1:
            raise IntegrityError("one_running_per_schedule")
        if ids[0] == runs[1].id:
            raise InterfaceError("the connection is closed")
        return real(ids, node, known)

    monkeypatch.setattr(claims, "_claim", meets_trouble)
    taken = claims.claim([run.id for run in runs], "node", ["tests.noop"])
    assert [one.id for one in taken] == [runs[0].id]
