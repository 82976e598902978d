"""What may be stored: JSON, bounded, the same on every database.

Input is refused before anything is written. Results and error texts, which a handler has already
earned, are cut to size and cleaned instead: completion must not depend on user text.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from sync_scheduler.errors import InvalidInput

MAX_DEPTH = 64
# Larger whole numbers turn into rounded floats in some databases' JSON.
_LARGEST_INT = 2**63 - 1
# The only name in a value that is stored encoded; see `codec`.
MARK = "$encoded"

Json = Any
# Where a value stands: what the whole is called, or the path of the one around it and a step.
Path = str | tuple[Any, Any]


def normalise(value: Any, what: str, max_bytes: int) -> Json:
    """The value as plain JSON types; `InvalidInput` says where it is not JSON."""
    return encode(value, what, max_bytes)[0]


def encode(value: Any, what: str, max_bytes: int) -> tuple[Json, str]:
    """The value as plain JSON types, and as the text of those."""
    if value == {}:
        return {}, "{}"
    clean = _walk(value, what, 0)
    if is_sealed(clean):
        raise InvalidInput(
            f"{what} holds nothing but the name {MARK!r}, which marks a stored value that is"
            " encoded and could not be decoded here."
        )
    text = dump(clean)
    # A character is one byte at least and four at most: most texts need not be measured.
    size = len(text)
    if size <= max_bytes < 4 * size:
        size = len(text.encode())
    if size > max_bytes:
        raise InvalidInput(
            f"{what} is {size:,} bytes as JSON; at most {max_bytes:,} are allowed."
            " Store large data elsewhere and pass its key."
        )
    return clean, text


def is_sealed(value: Json) -> bool:
    """Whether it is an encoded value in its envelope, and not a plain one."""
    return isinstance(value, dict) and len(value) == 1 and MARK in value


def is_same(one: Json, other: Json) -> bool:
    """Whether both say the same as JSON.

    Python takes True for 1, and rows of PostgreSQL may hold a large float as a whole number.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float) and one != other:
        # The database's number may have more digits than the float that it was.
        return float in {type(one), type(other)} and float(one) == float(other)
    return bool(one == other)


# A text, which is left alone, or a number with a positive exponent.
_LARGE = re.compile(r'"(?:[^"\\]|\\.)*"|[-.0-9]+e\+[0-9]+')


class Encoder(json.JSONEncoder):
    """JSON in which large floats stand written out.

    PostgreSQL takes `1e+16` for a whole number, and gives back another value than was stored.
    """

    def encode(self, o: Any) -> str:
        text = super().encode(o)
        return _LARGE.sub(_written_out, text) if "e+" in text else text


def _written_out(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else f"{float(text):.1f}"


_encoder = Encoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def dump(value: Json) -> str:
    return _encoder.encode(value)


def _walk(value: Any, path: Path, depth: int) -> Json:  # noqa: C901  # one branch per JSON type
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _text(value, path)
    if kind is int:
        if -_LARGEST_INT <= value <= _LARGEST_INT:
            return value
        raise InvalidInput(f"{_where(path)} is beyond 64 bits; pass it as text.")
    if kind is float:
        if math.isfinite(value):
            return value
        raise InvalidInput(f"{_where(path)} is {value}, which JSON cannot hold; pass None instead.")
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"{_where(path)} is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, list | tuple):
        return [_walk(item, (path, i), depth + 1) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {_key(key, path): _walk(item, (path, key), depth + 1) for key, item in value.items()}
    # Subclasses (str enums, numpy-like ints) are taken as the plain type that they claim to be.
    if isinstance(value, str):
        return _text(str.__str__(value), path)  # an enum's own str() may be its name
    for plain in (int, float):
        if isinstance(value, plain):
            return _walk(plain(value), path, depth)
    raise InvalidInput(
        f"{_where(path)} is of type {kind.__name__}, which is not JSON;"
        " pass text, numbers, lists or dictionaries."
    )


def _where(path: Path) -> str:
    """The path for people. Only an error needs it, so only an error pays for it."""
    steps = []
    while isinstance(path, tuple):
        path, step = path
        steps.append(f"[{step!r}]")
    return path + "".join(reversed(steps))


def _key(key: Any, path: Path) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"{_where(path)} has the key {key!r}; keys must be text.")
    return _text(key, path, "a key of ")


def _text(value: str, path: Path, what: str = "") -> str:
    if "\0" in value:
        raise InvalidInput(
            f"{what}{_where(path)} contains a NUL character, which databases cannot store."
        )
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{what}{_where(path)} contains half of a surrogate pair; clean the text."
        ) from None
    return value


def clean_text(text: str, max_bytes: int) -> str:
    """The text in a form that every database stores; the middle goes first when it is too long."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return data.decode()
    mark = b"\n[... cut ...]\n"
    half = max((max_bytes - len(mark)) // 2, 0)
    return (data[:half] + mark + data[len(data) - half :]).decode(errors="ignore")


def storable_result(value: Any, max_bytes: int) -> tuple[Json, str]:
    """A handler's result as JSON, and a note if it could not be kept as it was."""
    try:
        return normalise(value, "The result", max_bytes), ""
    except InvalidInput as error:
        return None, f"Result not kept: {error}"
    except Exception as error:  # noqa: BLE001  # a result's own __iter__ or __str__ may raise
        return None, f"Result not kept: {type(error).__name__}"
