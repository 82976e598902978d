"""Values with fields: dataclasses, typed dictionaries and named tuples.

What the fields are is looked up when the first value comes: a type may contain itself.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

from sync_scheduler.errors import InvalidJob
from sync_scheduler.jobs.conversion import Codec, Mismatch, lazily, shown

CodecFor = Callable[[Any], Codec]
_Fields = tuple[Mapping[str, Codec], frozenset[str]]


def dataclass(kind: Any, codec_for: CodecFor) -> Codec:
    @functools.cache
    def fields() -> _Fields:
        found = _hints(kind)
        taken = [f for f in dataclasses.fields(kind) if f.init]
        missing = dataclasses.MISSING
        needed = (f.name for f in taken if f.default is missing and f.default_factory is missing)
        return {f.name: codec_for(found[f.name]) for f in taken}, frozenset(needed)

    def encode(value: Any) -> dict[str, Any]:
        if isinstance(value, kind):
            value = {name: getattr(value, name) for name in fields()[0]}
        return _encode(f"a {kind.__name__}", "field", fields(), value)

    return Codec(encode, lambda value: kind(**_decode(fields(), value)))


def typed_dict(kind: Any, codec_for: CodecFor) -> Codec:
    @functools.cache
    def fields() -> _Fields:
        needed = set(kind.__required_keys__)
        found = _hints(kind)
        for name, hint in found.items():
            # Where annotations are texts, Python itself has not seen these.
            if typing.get_origin(hint) is typing.NotRequired:
                needed.discard(name)
            elif typing.get_origin(hint) is typing.Required:
                needed.add(name)
        return {name: codec_for(hint) for name, hint in found.items()}, frozenset(needed)

    return Codec(
        lambda value: _encode(f"a {kind.__name__}", "key", fields(), value),
        lambda value: _decode(fields(), value),
    )


def named_tuple(kind: Any, codec_for: CodecFor) -> Codec:
    @functools.cache
    def fields() -> list[Codec]:
        found = _hints(kind)
        return [codec_for(found.get(name, Any)) for name in kind._fields]

    least = len(kind._fields) - len(kind._field_defaults)

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise Mismatch(f"a {kind.__name__}, not {shown(value)}")
        if not least <= len(value) <= len(kind._fields):
            raise Mismatch(f"a {kind.__name__}, not a list of {len(value)}")
        out = []
        for name, codec, item in zip(kind._fields, fields(), value, strict=False):
            try:
                out.append(codec.encode(item))
            except Mismatch as error:
                raise Mismatch(f"a {kind.__name__} whose {name!r} is {error}") from None
        return out

    def decode(value: Any) -> Any:
        return kind(*(c.decode(item) for c, item in zip(fields(), value, strict=False)))

    return Codec(encode, decode)


def alias(kind: Any, codec_for: CodecFor) -> Codec:
    """`type Tree = list[Tree]`"""
    return lazily(lambda: codec_for(kind.__value__))


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except RecursionError:
        raise  # it is the value that is too deep
    except Exception as error:
        raise InvalidJob(f"The type hints of {kind.__name__} cannot be read ({error}).") from error


def _encode(what: str, part: str, fields: _Fields, value: Any) -> dict[str, Any]:
    codecs, needed = fields
    if not isinstance(value, Mapping):
        raise Mismatch(f"{what}, not {shown(value)}")
    for name in value:
        if name not in codecs:
            raise Mismatch(f"{what}, which has no {part} {name!r}")
    for name in codecs:
        if name in needed and name not in value:
            raise Mismatch(f"{what}, which needs the {part} {name!r}")
    out = {}
    for name, item in value.items():
        try:
            out[name] = codecs[name].encode(item)
        except Mismatch as error:
            raise Mismatch(f"{what} whose {name!r} is {error}") from None
    return out


def _decode(fields: _Fields, value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[0][name].decode(item) for name, item in value.items()}
