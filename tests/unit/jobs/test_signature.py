"""Input is checked against the handler's names and hints when it is submitted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from sync_scheduler import InvalidInput, JobContext
from sync_scheduler.errors import InvalidJob
from sync_scheduler.jobs import payload
from sync_scheduler.jobs.signature import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Word(str, enum.Enum):  # noqa: UP042  # what many projects have
    YES = "yes"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


@dataclasses.dataclass
class Order:
    number: int
    lines: list[Line]
    placed: dt.datetime | None = None


def handler(
    ctx: JobContext,
    text: str = "",
    number: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    day: dt.date | None = None,
    at: dt.datetime | None = None,
    ident: uuid.UUID | None = None,
    price: decimal.Decimal | None = None,
    colour: Colour = Colour.RED,
    mode: Literal["fast", "slow"] = "fast",
    order: Order | None = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment]
    pair: tuple[int, str] = (0, ""),
    counts: dict[str, int] | None = None,
    either: int | str = 0,
    noted: Annotated[int, "a note"] = 0,
    anything: Any = None,
) -> None: ...


SIGNATURE = Signature(handler, "tests.handler")


def there_and_back(**values: Any) -> Any:
    """Through JSON, as a worker sees it."""
    encoded = payload.normalise(SIGNATURE.encode((), values), "The input", 10_000)
    (decoded,) = SIGNATURE.decode(encoded).values()
    return decoded


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "naïve 🦉"),
        ("number", -(2**63) + 1),
        ("ratio", 0.1),
        ("ratio", 3),
        ("flag", True),
        ("day", dt.date(2026, 2, 28)),
        ("day", None),
        ("at", dt.datetime(2026, 2, 28, 12, 30, 5, 123456, tzinfo=dt.UTC)),
        ("ident", uuid.UUID("01890000-0000-7000-8000-000000000000")),
        ("price", decimal.Decimal("19.90")),
        ("colour", Colour.BLUE),
        ("mode", "slow"),
        ("order", Order(7, [Line("a", 2), Line("b")], dt.datetime(2026, 1, 1, tzinfo=dt.UTC))),
        ("tags", {"a", "b"}),
        ("pair", (1, "x")),
        ("counts", {"a": 1}),
        ("either", "text"),
        ("either", 5),
        ("noted", 3),
        ("anything", [1, {"deep": [None, True]}]),
    ],
)
def test_a_value_that_fits_its_hint_arrives_as_it_was_given(name: str, value: Any) -> None:
    # B3
    assert there_and_back(**{name: value}) == value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("text", 5, "a text, not int"),
        ("number", "5", "a whole number, not str"),
        ("number", True, "a whole number, not bool"),
        ("number", 1.5, "a whole number, not float"),
        ("ratio", "much", "a number, not str"),
        ("flag", 1, "True or False, not int"),
        ("day", "31.12.2026", "a date or None"),
        ("day", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "a date or None"),
        ("at", "tomorrow", "a datetime or None"),
        ("ident", "not-an-id", "a UUID or None"),
        ("price", "cheap", "a decimal number or None"),
        ("colour", "green", "one of 'red', 'blue'"),
        ("mode", "medium", "one of 'fast', 'slow'"),
        ("order", {"number": 1}, "needs the field 'lines'"),
        ("order", {"number": 1, "lines": [], "colour": 1}, "no field 'colour'"),
        ("order", {"number": 1, "lines": [{"sku": 5}]}, "Order"),
        ("tags", "ab", "a list, not str"),
        ("tags", {1}, "item 0"),
        ("pair", (1, "x", 2), "a list of 2 items, not of 3"),
        ("counts", {"a": "one"}, "'a'"),
        ("counts", [1], "a dictionary"),
        ("either", 1.5, "a whole number or a text"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(name: str, value: Any, words: str) -> None:
    # B3
    with pytest.raises(InvalidInput) as caught:
        SIGNATURE.encode((), {name: value})
    assert f"argument {name!r} must be" in str(caught.value)
    assert words in str(caught.value)


def test_a_refusal_does_not_show_the_value() -> None:
    # B3: it may be a secret
    with pytest.raises(InvalidInput) as caught:
        SIGNATURE.encode((), {"number": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_texts_are_taken_for_dates_ids_and_numbers_that_they_spell() -> None:
    # B3
    assert there_and_back(day="2026-02-28") == dt.date(2026, 2, 28)
    assert there_and_back(price="1.5") == decimal.Decimal("1.5")


def test_equal_sets_are_stored_as_equal_lists() -> None:
    # B5: the same key with the same input must not look like another input
    words = [f"word-{i}" for i in range(50)]
    one = SIGNATURE.encode((), {"tags": set(words)})
    other = SIGNATURE.encode((), {"tags": frozenset(reversed(words))})
    assert one == other


def test_names_are_checked() -> None:
    # B3
    def greet(name: str, loud: bool = False) -> None: ...

    signature = Signature(greet, "greet")
    with pytest.raises(InvalidInput, match="takes no argument 'nam'; it takes name, loud"):
        signature.encode((), {"nam": "x"})
    with pytest.raises(InvalidInput, match="needs the argument 'name'"):
        signature.encode((), {})
    with pytest.raises(InvalidInput, match="given twice"):
        signature.encode(("x",), {"name": "y"})
    with pytest.raises(InvalidInput, match="takes 2 arguments, not 3"):
        signature.encode(("x", True, 5), {})
    assert signature.encode(("x",), {"loud": True}) == {"name": "x", "loud": True}


def test_a_handler_that_takes_anything_by_name_gets_it() -> None:
    # B3
    def open_one(name: str, **rest: Any) -> None: ...

    assert Signature(open_one, "open").encode((), {"name": "x", "more": 1}) == {
        "name": "x",
        "more": 1,
    }


def test_what_comes_by_any_name_is_checked_and_arrives_as_its_hint_says() -> None:
    # B3
    def count(name: str = "", **others: dt.date) -> None: ...

    signature, day = Signature(count, "count"), dt.date(2026, 2, 28)
    encoded = signature.encode((), {"one": day, "others": "2026-03-01"})
    assert encoded == {"one": "2026-02-28", "others": "2026-03-01"}
    assert signature.decode(encoded) == {"one": day, "others": dt.date(2026, 3, 1)}
    with pytest.raises(InvalidInput, match="argument 'two' must be a date, not int"):
        signature.encode((), {"two": 2})


def test_only_a_first_parameter_called_ctx_is_the_context() -> None:
    # B4
    def with_context(ctx: Any, name: str) -> None: ...

    def without(name: str, ctx: Any = None) -> None: ...

    assert Signature(with_context, "a").takes_context
    assert Signature(with_context, "a").names == ("name",)
    assert not Signature(without, "b").takes_context


def _positional(x: int, /) -> None: ...


def _variadic(*x: int) -> None: ...


@pytest.mark.parametrize("func", [_positional, _variadic])
def test_parameters_that_cannot_be_given_by_name_are_refused(func: Callable[..., None]) -> None:
    # B3
    with pytest.raises(InvalidJob, match="cannot be passed by name"):
        Signature(func, "bad")


def test_a_hint_that_cannot_be_read_is_named() -> None:
    # B3
    def broken(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidJob, match="type hints cannot be read"):
        Signature(broken, "broken").encode((), {"x": 1})


def test_pydantic_models_are_checked_and_come_back() -> None:
    # B3
    pydantic = pytest.importorskip("pydantic")

    class Address(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        street: str
        number: int

    def move(to) -> None: ...  # type: ignore[no-untyped-def]

    move.__annotations__["to"] = Address
    signature = Signature(move, "move")
    encoded = signature.encode((), {"to": Address(street="Main", number=5)})
    assert encoded == {"to": {"street": "Main", "number": 5}}
    assert signature.decode(encoded)["to"] == Address(street="Main", number=5)
    with pytest.raises(InvalidInput, match="number"):
        signature.encode((), {"to": {"street": "Main", "number": "many"}})


def test_a_pydantic_model_comes_back_by_whatever_names_it_is_read() -> None:
    # B3: a default would hide that a value has got lost on the way
    pydantic = pytest.importorskip("pydantic")

    class Address(pydantic.BaseModel, extra="forbid"):  # type: ignore[name-defined, call-arg, misc]
        street: str = pydantic.Field("", alias="streetName")
        number: int

        @pydantic.computed_field  # type: ignore[untyped-decorator]
        def label(self) -> str:
            return f"{self.street} {self.number}"

    class Plain(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        number: int

    class More(Plain):
        name: str

    class Secret(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        word: pydantic.SecretStr  # type: ignore[name-defined]

    class OneWay(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        street: str = pydantic.Field("", validation_alias="streetName")

    def move(to, plain, word, once) -> None: ...  # type: ignore[no-untyped-def]

    move.__annotations__.update(
        to=list[Address] | None, plain=Plain, word=Secret | None, once=OneWay | None
    )
    signature = Signature(move, "move")
    values: dict[str, Any] = {"to": [Address(streetName="Main", number=5)], "word": None}
    values |= {"plain": More(number=6, name="x"), "once": None}
    decoded = signature.decode(payload.normalise(signature.encode((), values), "", 10_000))
    assert decoded == values | {"plain": Plain(number=6)}

    for name, value in (("word", {"word": "hunter2"}), ("once", {"streetName": "Main"})):
        with pytest.raises(InvalidInput, match="can be read again from its own JSON") as caught:
            signature.encode((), values | {name: value})
        assert "hunter2" not in str(caught.value)


def test_what_a_model_says_of_a_secret_is_kept_back() -> None:
    # S11: its own validators may quote the value
    pydantic = pytest.importorskip("pydantic")

    def refuse(number: str) -> str:
        raise ValueError(f"no card has the number {number}")

    card = pydantic.create_model(
        "Card", number=(Annotated[str, pydantic.AfterValidator(refuse)], ...)
    )

    def pay(card: Any, other: Any = None) -> None: ...

    pay.__annotations__.update(card=card, other=card)
    signature = Signature(pay, "pay", sensitive=("card",))
    with pytest.raises(InvalidInput, match=r"argument 'card' must be a Card\.$"):
        signature.encode((), {"card": {"number": "canary-4711"}})
    with pytest.raises(InvalidInput, match="no card has the number 5"):
        signature.encode((), {"other": {"number": "5"}, "card": {"number": "6"}})
