"""What may be stored, and what is made of what may not."""

from __future__ import annotations

import enum
import json
from typing import Any

import pytest

from sync_scheduler import InvalidInput
from sync_scheduler.jobs import payload

LIMIT = 262_144


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "is nan, which JSON cannot hold"),
        (float("inf"), "is inf"),
        ({"a": [1, float("nan")]}, "The input['a'][1]"),
        ("a\0b", "NUL"),
        ({"a\0": 1}, "NUL"),
        ("\ud800", "surrogate"),
        (2**63, "beyond 64 bits"),
        (-(2**63), "beyond 64 bits"),
        ({1: "a"}, "keys must be text"),
        ({None: "a"}, "keys must be text"),
        ([object()], "of type object, which is not JSON"),
        (b"raw", "of type bytes"),
        ({1, 2}, "of type set"),
        (nested(65), "nested deeper than 64 levels"),
        ("x" * LIMIT, "at most 262,144"),
    ],
)
def test_what_is_not_json_everywhere_is_refused_in_words(value: Any, words: str) -> None:
    # B3
    with pytest.raises(InvalidInput) as caught:
        payload.normalise(value, "The input", LIMIT)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["x" * (LIMIT - 2), nested(64), 2**63 - 1, {"ключ": "🦉"}, [None, True, 1.5], {}],
)
def test_what_lies_just_inside_the_limits_is_kept_as_it_is(value: Any) -> None:
    # B3
    assert payload.normalise(value, "The input", LIMIT) == value


@pytest.mark.parametrize("value", [1e16, -1e23, 1.2345678901234568e18, 1.7e308])
def test_a_large_float_is_written_as_one_that_no_database_takes_for_a_whole_number(
    value: float,
) -> None:
    # B3
    texts = ["1e+16", 'a "1e+16" b', "\\", 'é\\"2e+20']
    text = payload.dump({"1e+16": value, "texts": texts, "small": 1e-7})
    assert json.loads(text) == {"1e+16": value, "texts": texts, "small": 1e-7}
    assert text.startswith(f'{{"1e+16":{int(value)}.0,')


def test_the_size_is_counted_in_bytes() -> None:
    # B3
    with pytest.raises(InvalidInput):
        payload.normalise("ä" * (LIMIT // 2), "The input", LIMIT)


class Word(str, enum.Enum):  # noqa: UP042  # its str() is "Word.YES"
    YES = "yes"


class Number(enum.IntEnum):
    ONE = 1


class Upper(str):
    def __str__(self) -> str:
        return "something else"


def test_subclasses_of_plain_types_are_stored_as_what_they_hold() -> None:
    # B3
    clean = payload.normalise([Word.YES, Number.ONE, Upper("low"), (1, 2)], "The input", LIMIT)
    assert clean == ["yes", 1, "low", [1, 2]]
    assert [type(item) for item in clean] == [str, int, str, list]


def test_a_result_that_cannot_be_kept_is_replaced_by_a_note() -> None:
    # B1
    assert payload.storable_result({"a": 1}, 100) == ({"a": 1}, "")
    result, note = payload.storable_result(object(), 100)
    assert result is None
    assert note.startswith("Result not kept: ")
    assert payload.storable_result("x" * 101, 100)[0] is None


def test_a_result_whose_own_code_raises_is_replaced_by_a_note() -> None:
    # B1
    class Hostile(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise RuntimeError("no")

    assert payload.storable_result(Hostile([1]), 100) == (None, "Result not kept: RuntimeError")


def test_a_text_is_cleaned_and_its_middle_cut() -> None:
    # B1
    assert payload.clean_text("a\0b\ud800c", 100) == "a\N{REPLACEMENT CHARACTER}b?c"
    cut = payload.clean_text("begin" + "ä" * 1000 + "end", 100)
    assert cut.startswith("begin")
    assert cut.endswith("end")
    assert len(cut.encode()) <= 100
    assert "[... cut ...]" in cut
    json.dumps(cut).encode()
