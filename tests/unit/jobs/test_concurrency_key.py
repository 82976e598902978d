"""What Runs are counted by: a name of the input, or a function of it."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest

from sync_scheduler.jobs import payload
from sync_scheduler.jobs.definition import Job, Policy


def test_a_concurrency_key_is_a_name_or_a_function_of_the_input() -> None:
    # B15
    def handler(tenant: str) -> None: ...

    def lower(stored: dict[str, Any]) -> str:
        return str(stored["tenant"]).lower()

    by_name = Job(handler, policy=Policy(concurrency=1, concurrency_key="tenant"))
    by_function = Job(handler, policy=Policy(concurrency=1, concurrency_key=lower))
    assert by_name.concurrency_value({"tenant": "A"}) == "A"
    assert by_function.concurrency_value({"tenant": "A"}) == "a"


class Plan(enum.Enum):
    FREE = "free"
    PAID = "paid"


@dataclasses.dataclass
class Account:
    number: int


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("tenant", "a"),
        ("plan", Plan.PAID),
        ("account", Account(7)),
        ("parts", (1, 2)),
        ("nothing", None),
        ("odd", None),
    ],
)
def test_what_was_not_given_counts_as_its_default(name: str, given: object) -> None:
    # B15
    def handler(
        tenant: str = "a",
        plan: Plan = Plan.PAID,
        account: Account = Account(7),  # noqa: B008
        parts: tuple[int, ...] = (1, 2),
        nothing: str | None = None,
        odd: str = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> None: ...

    by_name = Job(handler, policy=Policy(concurrency=1, concurrency_key=name))
    by_function = Job(
        handler, policy=Policy(concurrency=1, concurrency_key=lambda stored: str(stored[name]))
    )
    for declared in (by_name, by_function):
        values = [declared.concurrency_value({})]
        if name != "odd":
            stored = payload.normalise(declared.signature.encode((), {name: given}), "it", 1000)
            values.append(declared.concurrency_value(stored))
        assert len(set(values)) == 1
        assert values[0]


def test_a_default_that_no_input_could_hold_counts_as_none() -> None:
    # B15: its text would not be the same in two processes
    def handler(tenant: Any = object()) -> None: ...  # noqa: B008

    declared = Job(handler, policy=Policy(concurrency=1, concurrency_key="tenant"))
    assert declared.concurrency_value({}) == ""


def test_a_concurrency_key_may_be_among_names_that_are_not_declared() -> None:
    # B15
    def handler(**more: str) -> None: ...

    declared = Job(handler, policy=Policy(concurrency=1, concurrency_key="tenant"))
    assert declared.concurrency_value({"tenant": "a"}) == "a"
    assert declared.concurrency_value({}) == ""
