"""How a value and its JSON become each other, and the answer that a value does not fit."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any


class Mismatch(Exception):  # never leaves this package
    """The value does not fit; the message completes "must be ..."."""


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def same(value: Any) -> Any:
    return value


ANYTHING = Codec(same, same)


def shown(value: Any) -> str:
    # The value itself stays out of messages: it may be a secret.
    return type(value).__name__


def plain(name: str, fits: Callable[[Any], bool]) -> Codec:
    """A value that is its own JSON."""

    def encode(value: Any) -> Any:
        if not fits(value):
            raise Mismatch(f"{name}, not {shown(value)}")
        return value

    return Codec(encode, same)


def lazily(make: Callable[[], Codec]) -> Codec:
    """Made when it is needed: a type may name itself."""
    found = functools.cache(make)
    return Codec(lambda value: found().encode(value), lambda value: found().decode(value))
