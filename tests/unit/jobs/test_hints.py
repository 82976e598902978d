"""Hints beyond the plain ones: what they allow is what a handler gets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import pathlib
from collections.abc import MutableMapping, MutableSequence
from collections.abc import Set as AbstractSet
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Protocol,
    Required,
    TypedDict,
    TypeVar,
)

import pytest
from typing_extensions import TypeAliasType

from sync_scheduler import InvalidInput, job
from sync_scheduler.errors import InvalidJob
from sync_scheduler.jobs import payload, registry
from sync_scheduler.jobs.signature import Signature

if TYPE_CHECKING:
    from somewhere import Elsewhere  # type: ignore[import-not-found]

UTC = dt.UTC
DAY = dt.date(2026, 2, 28)
INSTANT = dt.datetime(2026, 2, 28, 6, tzinfo=UTC)
UserId = NewType("UserId", int)
When = NewType("When", dt.datetime)
Whole = TypeVar("Whole", bound=int)
Either = TypeVar("Either", int, str)
Days = TypeAliasType("Days", list[dt.date])
Nested = TypeAliasType("Nested", "list[Nested] | int")


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Address(TypedDict):
    city: str
    since: NotRequired[dt.date]


class Filter(TypedDict, total=False):
    since: Required[dt.date]
    city: str


class Point(NamedTuple):
    x: int
    on: dt.date
    name: str = ""


@dataclasses.dataclass
class Branch:
    value: int
    on: dt.date
    next: Branch | None = None


@dataclasses.dataclass
class Box(Generic[Whole]):
    value: Whole


@dataclasses.dataclass
class Unreadable:
    value: Missing  # type: ignore[name-defined]  # noqa: F821


class Customer:
    """Such as a model: nothing that is JSON."""


class Sized(Protocol):
    def size(self) -> int: ...


def signature_of(hint: Any) -> Signature:
    def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = hint
    return Signature(handler, "tests.hints")


def there_and_back(hint: Any, value: Any) -> Any:
    """Through JSON, as a worker sees it."""
    signature = signature_of(hint)
    stored = payload.normalise(signature.encode((), {"x": value}), "The input", 10_000)
    signature.check_stored(stored)
    return signature.decode(json.loads(json.dumps(stored)))["x"]


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (UserId, 7),
        (When, INSTANT),
        (Address, {"city": "Bonn"}),
        (Address, {"city": "Bonn", "since": DAY}),
        (Filter, {"since": DAY}),
        (list[Address], [{"city": "Bonn", "since": DAY}]),
        (Point, Point(1, DAY)),
        (Point, Point(1, DAY, "home")),
        (Point | None, Point(1, DAY)),
        (Branch, Branch(1, DAY, Branch(2, DAY))),
        (Box[int], Box(1)),
        (Whole, 1),
        (Either, "a"),
        (Days, [DAY]),
        (Nested, [1, [2, [3]]]),
        (dt.datetime | dt.date, DAY),
        (dt.datetime | dt.date, INSTANT),
        (dt.date | dt.datetime, INSTANT),
        (Literal[Mode.FAST, "other"], Mode.FAST),
        (Literal[Mode.FAST, "other"], "other"),
        (Final[dt.date], DAY),
        (MutableMapping[str, dt.date], {"a": DAY}),
        (MutableSequence[dt.date], [DAY]),
        (AbstractSet[int], {1, 2}),
        (Sized, {"anything": 1}),
    ],
)
def test_a_value_arrives_as_its_hint_says(hint: Any, value: Any) -> None:
    # B3
    found = there_and_back(hint, value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (UserId, "7", "a whole number, not str"),
        (When, "soon", "a datetime, not str"),
        (Address, {}, "a Address, which needs the key 'city'"),
        (Address, {"city": 5}, "a Address whose 'city' is a text, not int"),
        (Address, {"city": "Bonn", "town": 1}, "a Address, which has no key 'town'"),
        (Address, [], "a Address, not list"),
        (Filter, {"city": "Bonn"}, "a Filter, which needs the key 'since'"),
        (Point, (1, "soon"), "a Point whose 'on' is a date, not str"),
        (Point, (1,), "a Point, not a list of 1"),
        (Point, {"x": 1}, "a Point, not dict"),
        (Branch, {"value": 1, "on": DAY, "next": {"value": 2}}, "a Branch"),
        (Box[int], {"value": "a"}, "a Box whose 'value' is a whole number, not str"),
        (Whole, "a", "a whole number, not str"),
        (Either, 1.5, "a whole number or a text, not float"),
        (Days, ["soon"], "a list whose item 0 is a date, not str"),
        (Literal[Mode.FAST], Mode.SLOW, "one of"),
        (MutableMapping[str, int], {"a": "b"}, "a dictionary whose 'a' is a whole number"),
        (MutableSequence[int], ["a"], "a list whose item 0 is a whole number"),
        (AbstractSet[int], {"a"}, "a list whose item 0 is a whole number"),
        (Customer, "7", "a Customer, not str"),
        (Customer, 7, "a Customer, not int"),
        (pathlib.Path, "a/b", "a Path, not str"),
        (dt.timedelta, 5, "a timedelta, not int"),
        (bytes, "ab", "a bytes, not str"),
    ],
)
def test_a_value_that_its_hint_does_not_allow_is_refused(hint: Any, value: Any, words: str) -> None:
    # B3
    with pytest.raises(InvalidInput) as caught:
        signature_of(hint).encode((), {"x": value})
    assert f"argument 'x' must be {words}" in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    # B3
    ring = Branch(1, DAY)
    ring.next = ring
    with pytest.raises(InvalidInput, match="nested too deeply, or contains itself"):
        signature_of(Branch).encode((), {"x": ring})


def test_that_it_is_too_deep_is_not_said_of_the_class_when_its_hints_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B3: where the stack ends depends on the version of Python
    signature = signature_of(Branch)
    assert signature.codecs

    def too_deep(*args: Any, **options: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr("typing.get_type_hints", too_deep)
    with pytest.raises(InvalidInput, match="nested too deeply, or contains itself"):
        signature.encode((), {"x": {"value": 1}})


def test_a_class_whose_hints_cannot_be_read_is_named() -> None:
    # B3
    with pytest.raises(InvalidJob, match="type hints of Unreadable cannot be read"):
        signature_of(Unreadable).encode((), {"x": {"value": 1}})


def test_only_hints_of_what_is_submitted_need_be_known_when_it_runs() -> None:
    # B3: linters move an import that only hints need below TYPE_CHECKING
    def handler(ctx: Elsewhere, day: dt.date) -> Elsewhere: ...

    signature = Signature(handler, "tests.hints")
    assert signature.encode((), {"day": DAY}) == {"day": "2026-02-28"}
    with pytest.raises(InvalidInput, match="a date"):
        signature.encode((), {"day": 5})


def test_the_context_is_never_input() -> None:
    # B3, B4: a worker passes it itself
    def handler(ctx: Any, **others: Any) -> None: ...

    def plain(**others: Any) -> None: ...

    with pytest.raises(InvalidInput, match="takes no argument 'ctx'"):
        Signature(handler, "tests.hints").encode((), {"ctx": 1})
    assert Signature(plain, "tests.hints").encode((), {"ctx": 1}) == {"ctx": 1}


def test_a_context_may_be_given_by_name_where_a_job_is_called() -> None:
    # B1: in somebody's own test
    @job(name="tests.hints.called")
    def called(ctx: Any, a: int) -> Any:
        return ctx, a

    try:
        assert called(ctx="mine", a=2) == ("mine", 2)
    finally:
        registry.remove("tests.hints.called")
