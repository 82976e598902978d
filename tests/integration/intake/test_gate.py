"""The name under which Runs of a limited job are counted together."""

from __future__ import annotations

from typing import Any

import pytest

from sync_scheduler.intake.gate import gate_of
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job, Policy
from sync_scheduler.store.waiting import gate_name


def handler(tenant: str) -> None: ...


def gate(value: str, name: str = "limited") -> str:
    def value_of(stored: dict[str, Any]) -> str:
        return value

    policy = Policy(concurrency=1, concurrency_key=value_of)
    found = gate_of(Job(handler, name=name, policy=policy), {})
    assert found is not None
    return found


@pytest.mark.parametrize("length", [0, 1, 290, 295, 300, 400, 100_000])
@pytest.mark.parametrize("name", ["j", "j" * 200])
def test_every_value_gives_a_name_that_fits(length: int, name: str) -> None:
    # B15
    found = gate("ä" * length, name)
    assert len(found) <= 300
    assert len(gate_name(found)) <= 300


def test_long_values_that_begin_alike_are_counted_apart() -> None:
    # B15
    long = "x" * 400
    assert gate(long + "a") == gate(long + "a")
    assert len({gate(long), gate(long + "a"), gate(long + "b")}) == 3


def test_no_value_can_pass_for_the_digest_of_another() -> None:
    # B15
    made = gate("x" * 400)
    assert gate(made.removeprefix("limited:")) != made


def test_what_no_database_stores_is_counted_apart_too() -> None:
    # B15: a function may find a key that no input could hold
    found = {gate(value) for value in ("a\0", "a\N{REPLACEMENT CHARACTER}", "a\ud800", "a?")}
    assert len(found) == 4
    assert not any("\0" in one for one in found)
    assert all(one.encode() for one in found)


def test_a_job_without_a_limit_has_none() -> None:
    # B15
    assert gate_of(Job(handler, policy=Policy()), {"tenant": "a"}) is None


@pytest.mark.parametrize("key", ["card", lambda given: f"card {given['card']}"])
def test_a_secret_is_counted_by_without_being_told(key: Any) -> None:
    # S11, B15: what a Run waits for is shown
    def charge(card: str) -> None: ...

    policy = Policy(concurrency=1, concurrency_key=key, sensitive=("card",))
    charged = Job(charge, name="gate.charge", policy=policy)
    registry.add(charged)
    try:
        found = [gate_of(charged, {"card": card}) for card in ("canary-4711", "canary-4712", "77")]
    finally:
        registry.remove("gate.charge")
    assert len(set(found)) == 3
    assert not any("canary" in str(one) for one in found)
