"""What a worker's parent and its children say to each other: JSON, a line each.

Parent to child: an `Order` to run something, or a note about one (`cancel`, `timeout`, `recall`).
Child to parent: a `Report` of how an order ended, of progress, or of what was handed back.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

_load = json.JSONDecoder().decode
_dump = json.JSONEncoder(separators=(",", ":")).encode
NEWLINE = b"\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
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

    def line(self) -> bytes:
        return _line(
            ["run", self.run, self.job, self.input, self.attempt, self.token, self.trigger,
             self.slot, self.depth, self.node]
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
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

    def line(self) -> bytes:
        return _line(
            ["end", self.run, self.token, self.kind, self.started, self.finished, self.result,
             self.error, self.traceback, self.delay]
        )  # fmt: skip


def note(kind: str, *facts: Any) -> bytes:
    """cancel(run), timeout(run), recall(runs), progress(run, fraction, message), quit()."""
    return _line([kind, *facts])


def _line(parts: list[Any]) -> bytes:
    return _dump(parts).encode() + NEWLINE


class Reader:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[list[Any]]:
        *lines, self._rest = (self._rest + data).split(NEWLINE)
        return [_load(line.decode()) for line in lines]
