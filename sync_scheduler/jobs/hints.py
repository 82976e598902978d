"""From a type hint to a check, and to the way between the value and JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import types
import typing
import uuid
from collections.abc import (
    Callable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import Any

from sync_scheduler.jobs import records
from sync_scheduler.jobs.conversion import ANYTHING, Codec, Mismatch, plain, shown

# What stands around a hint and says nothing about the value. (`ReadOnly` came with Python 3.13.)
_QUALIFIERS = (
    *(typing.Annotated, typing.Final, typing.Required, typing.NotRequired),
    *([typing.ReadOnly] if hasattr(typing, "ReadOnly") else []),
)
# What a handler gets for a list, by its hint.
_MAKERS: dict[Any, Any] = {
    **{kind: kind for kind in (list, tuple, set, frozenset)},
    **dict.fromkeys((Sequence, MutableSequence), list),
    **dict.fromkeys((AbstractSet, MutableSet), set),
}
_JSON = (str, int, float, list, dict, tuple)


def codec_for(hint: Any) -> Codec:  # noqa: C901  # one branch per family of hints
    """How values of this hint are checked, written and read."""
    if hint is Any:
        return ANYTHING
    if isinstance(hint, typing.TypeVar):
        return _union(hint.__constraints__) if hint.__constraints__ else _bound(hint.__bound__)
    if isinstance(hint, typing.NewType):
        return codec_for(hint.__supertype__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _QUALIFIERS:
        return codec_for(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is typing.Literal:
        return _one_of(arguments)
    if hint is None or hint is type(None):
        return plain("None", lambda value: value is None)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint in _TEXTUAL:
        return _textual(hint, *_TEXTUAL[hint])
    container = origin or hint
    if container in _MAKERS:
        return _sequence(container, arguments)
    if container in (dict, Mapping, MutableMapping):
        return _mapping(arguments[1] if len(arguments) == 2 else Any)
    if isinstance(container, type):
        return _of_class(container, is_generic=origin is not None)
    if type(container).__name__ == "TypeAliasType":
        return records.alias(container, codec_for)
    return ANYTHING


def _of_class(kind: Any, *, is_generic: bool) -> Codec:
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if dataclasses.is_dataclass(kind):
        return records.dataclass(kind, codec_for)
    if hasattr(kind, "model_validate") and hasattr(kind, "model_dump"):
        return _pydantic(kind)
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return records.typed_dict(kind, codec_for)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return records.named_tuple(kind, codec_for)
    if is_generic or issubclass(kind, _JSON) or getattr(kind, "_is_protocol", False):
        return ANYTHING
    # Nothing of this class is JSON, but what is not of it does not fit either.
    return plain(f"a {kind.__name__}", lambda value: isinstance(value, kind))


def _bound(hint: Any) -> Codec:
    return ANYTHING if hint is None else codec_for(hint)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SCALARS: dict[Any, Codec] = {
    str: plain("a text", lambda v: isinstance(v, str)),
    bool: plain("True or False", lambda v: isinstance(v, bool)),
    int: plain("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    float: plain("a number", _is_number),
    object: ANYTHING,
}


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


_TEXTUAL: dict[Any, tuple[str, Callable[[str], Any], Callable[[Any], str]]] = {
    dt.datetime: ("a datetime", dt.datetime.fromisoformat, lambda v: v.isoformat()),
    dt.date: ("a date", _date, lambda v: v.isoformat()),
    dt.time: ("a time", dt.time.fromisoformat, lambda v: v.isoformat()),
    uuid.UUID: ("a UUID", uuid.UUID, str),
    decimal.Decimal: ("a decimal number", decimal.Decimal, str),
}


def _textual(
    kind: type, name: str, read: Callable[[str], Any], write: Callable[[Any], str]
) -> Codec:
    def encode(value: Any) -> str:
        # A datetime counts as a date in Python, but its text cannot be read back as one.
        if isinstance(value, kind) and not (kind is dt.date and isinstance(value, dt.datetime)):
            return write(value)
        if isinstance(value, str):
            try:
                return write(read(value))
            except (ValueError, decimal.InvalidOperation):
                pass
        raise Mismatch(f"{name}, not {shown(value)}")

    return Codec(encode, read)


def _union(arguments: tuple[Any, ...]) -> Codec:
    codecs = [codec_for(argument) for argument in arguments]

    def encode(value: Any) -> Any:
        wanted = []
        for codec in codecs:
            try:
                return codec.encode(value)
            except Mismatch as error:
                wanted.append(str(error).split(", not ")[0])
        raise Mismatch(f"{' or '.join(wanted)}, not {shown(value)}")

    def decode(value: Any) -> Any:
        others = []
        for codec in codecs:
            try:
                is_own = codec.encode(value) == value
                decoded = codec.decode(value)
            except (Mismatch, ValueError, TypeError):
                continue
            # A date can be read as a datetime too, but no datetime is written so.
            if is_own:
                return decoded
            others.append(decoded)
        return others[0] if others else value

    return Codec(encode, decode)


def _one_of(choices: tuple[Any, ...]) -> Codec:
    def encode(value: Any) -> Any:
        if not any(value == choice and type(value) is type(choice) for choice in choices):
            raise Mismatch(f"one of {', '.join(map(repr, choices))}")
        return value.value if isinstance(value, enum.Enum) else value

    members = [choice for choice in choices if isinstance(choice, enum.Enum)]

    def decode(value: Any) -> Any:
        return next((member for member in members if member.value == value), value)

    return Codec(encode, decode)


def _sequence(container: Any, arguments: tuple[Any, ...]) -> Codec:
    fixed = container is tuple and arguments and arguments[-1] is not Ellipsis
    codecs = [codec_for(a) for a in arguments if a is not Ellipsis] or [ANYTHING]
    make = _MAKERS[container]

    def pairs(value: Any) -> list[tuple[Codec, Any]]:
        if fixed:
            if len(value) != len(codecs):
                raise Mismatch(f"a list of {len(codecs)} items, not of {len(value)}")
            return list(zip(codecs, value, strict=True))
        return [(codecs[0], item) for item in value]

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise Mismatch(f"a list, not {shown(value)}")
        out = []
        for i, (codec, item) in enumerate(pairs(value)):
            try:
                out.append(codec.encode(item))
            except Mismatch as error:
                raise Mismatch(f"a list whose item {i} is {error}") from None
        if isinstance(value, set | frozenset):
            # A set has no order of its own; equal sets must be stored as equal lists.
            out.sort(key=repr)
        return out

    def decode(value: Any) -> Any:
        return make(codec.decode(item) for codec, item in pairs(value))

    return Codec(encode, decode)


def _mapping(hint: Any) -> Codec:
    inner = codec_for(hint)

    def encode(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise Mismatch(f"a dictionary, not {shown(value)}")
        out = {}
        for key, item in value.items():
            try:
                out[key] = inner.encode(item)
            except Mismatch as error:
                raise Mismatch(f"a dictionary whose {key!r} is {error}") from None
        return out

    return Codec(encode, lambda value: {key: inner.decode(item) for key, item in value.items()})


def _enum(kind: type[enum.Enum]) -> Codec:
    def encode(value: Any) -> Any:
        try:
            return kind(value).value
        except ValueError:
            raise Mismatch(f"one of {', '.join(repr(m.value) for m in kind)}") from None

    return Codec(encode, kind)


def _pydantic(kind: Any) -> Codec:
    def encode(value: Any) -> Any:
        try:
            model = kind.model_validate(value)
        except ValueError as error:
            first = error.errors()[0] if hasattr(error, "errors") else {"msg": "invalid"}
            where = ".".join(str(part) for part in first.get("loc", ()))
            raise Mismatch(f"a {kind.__name__} ({where or 'value'}: {first['msg']})") from None
        # A field with an alias is mostly read by that alone; a default hides that it was not.
        for by_alias in (True, False):
            dumped = model.model_dump(mode="json", round_trip=True, by_alias=by_alias)
            if _comes_back(kind, dumped, model):
                return dumped
        raise Mismatch(f"a {kind.__name__} that can be read again from its own JSON")

    return Codec(encode, kind.model_validate)


def _comes_back(kind: Any, dumped: Any, model: Any) -> bool:
    """Whether what is read from the dump holds what the model did; a subclass may hold more."""
    try:
        again = kind.model_validate(dumped).model_dump(round_trip=True)
        before = model.model_dump(round_trip=True)
        if isinstance(again, dict):
            before = {name: before[name] for name in again}
        return bool(again == before)
    except (ValueError, LookupError):
        return False
