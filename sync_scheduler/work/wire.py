"""What a worker's parent and its children say to each other: JSON, a list of messages a line.

Parent to child: an `Order` to run something, or a note about one (`cancel`, `timeout`, `recall`).
Child to parent: a `Report` of how an order ended, of progress, or of what was handed back.

Orders and reports are tuples and travel in bunches, because thousands of them do every second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

_load = json.JSONDecoder().decode
_dump = json.JSONEncoder(separators=(",", ":")).encode
NEWLINE = b"\n"

Message = Sequence[Any]


class Order(NamedTuple):
    """One attempt at one Run."""

    run: str
    job: str
    input: dict[str, Any]
    attempt: int
    token: int
    trigger: str
    slot: str | None
    depth: int
    node: str

    @property
    def message(self) -> Message:
        return ("run", *self)


class Report(NamedTuple):
    """How an order ended. `kind`: done, stored, error, retry, cancel, timeout, lost.

    `stored` means that the handler's own transaction has recorded the end already.
    """

    run: str
    token: int
    kind: str
    started: float
    finished: float
    result: Any = None
    error: str = ""
    traceback: str = ""
    delay: float | None = None

    @property
    def message(self) -> Message:
        return ("end", *self)


def note(kind: str, *facts: Any) -> Message:
    """cancel(run), timeout(run), recall(runs), progress(run, fraction, message), quit()."""
    return (kind, *facts)


def frame(messages: Iterable[Message]) -> bytes:
    """Messages as they travel."""
    return _dump(list(messages)).encode() + NEWLINE


class Reader:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[list[Any]]:
        if NEWLINE not in data:
            # Put together only once: a frame of large inputs comes in very many pieces.
            self._parts.append(data)
            return []
        *lines, rest = b"".join([*self._parts, data]).split(NEWLINE)
        self._parts = [rest] if rest else []
        return [message for line in lines for message in _load(line.decode())]
