"""Payloads at rest: encoded by the site's own codec (`PAYLOAD_CODEC`), or plain JSON without one.

A value that is encoded is stored as an envelope, `{"$encoded": "..."}`, so that columns stay JSON
and rows from before the setting stay readable. Only an undecodable value is ever seen in its
envelope by the rest of the package; `payload` refuses input and results that look like one, so
that an envelope can be told from a plain value everywhere and is opened only once.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Protocol

from django.utils.module_loading import import_string

from sync_scheduler import conf
from sync_scheduler.errors import InvalidSetting, PayloadCodecError
from sync_scheduler.jobs.payload import MARK, Json, dump, is_sealed


class Codec(Protocol):
    """What `PAYLOAD_CODEC` gives: JSON text in, any text out, and back. Used by many threads."""

    def encode(self, text: str) -> str: ...

    def decode(self, text: str) -> str: ...


def seal(value: Json) -> Json:
    """The value as it is to be stored. What holds nothing, or is sealed already, stays as it is."""
    path = conf.get().PAYLOAD_CODEC
    if path is None or value is None or value == {} or is_sealed(value):
        return value
    return {MARK: _encoded(path, dump(value))}


def seal_texts(texts: list[str]) -> list[str]:
    """`seal` for values that are JSON texts already."""
    path = conf.get().PAYLOAD_CODEC
    if path is None:
        return texts
    return [t if t == "{}" else dump({MARK: _encoded(path, t)}) for t in texts]


def unseal(value: Json, what: str) -> Json:
    """The stored value in plain; `PayloadCodecError` if it cannot be decoded here."""
    if not is_sealed(value):
        return value
    path = conf.get().PAYLOAD_CODEC
    if path is None:
        raise PayloadCodecError(f"{what} is stored encoded, but PAYLOAD_CODEC is not set here.")
    try:
        return json.loads(_load(path).decode(value[MARK]))
    except InvalidSetting:
        raise
    except Exception as error:  # noqa: BLE001  # somebody's own codec may raise anything
        # Its text may hold what must not be seen, such as a key; so does what it was raised from.
        raise PayloadCodecError(
            f"{what} cannot be decoded by PAYLOAD_CODEC ({type(error).__name__});"
            " was it stored with another key?"
        ) from None


def read(value: Json) -> Json:
    """The stored value in plain, or in its envelope: one bad value must not cost a whole query."""
    if not is_sealed(value):
        return value
    try:
        return unseal(value, "The value")
    except (PayloadCodecError, InvalidSetting):
        return value


def faults() -> list[str]:
    """What is wrong with the setting, a sentence each."""
    path = conf.get().PAYLOAD_CODEC
    if path is None:
        return []
    try:
        _load(path)
    except InvalidSetting as error:
        return [str(error)]
    return []


def _encoded(path: str, text: str) -> str:
    try:
        encoded: Any = _load(path).encode(text)
        if not isinstance(encoded, str) or "\0" in encoded:
            raise TypeError
        encoded.encode()
    except InvalidSetting:
        raise
    except Exception as error:  # noqa: BLE001
        raise PayloadCodecError(
            f"A value cannot be encoded by PAYLOAD_CODEC ({type(error).__name__});"
            " nothing of it is stored."
        ) from None
    return encoded


@lru_cache(maxsize=8)
def _load(path: str) -> Codec:
    """Made once in a process."""
    try:
        codec = import_string(path)()
    except Exception as error:
        why = str(error) if isinstance(error, ImportError) else type(error).__name__
        raise InvalidSetting(f"PAYLOAD_CODEC {path!r} cannot be used: {why}.") from error
    for name in ("encode", "decode"):
        if not callable(getattr(codec, name, None)):
            raise InvalidSetting(f"PAYLOAD_CODEC {path!r} gives an object without {name}().")
    return codec  # type: ignore[no-any-return]  # it has just been looked at
