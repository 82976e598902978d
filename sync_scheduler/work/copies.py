"""Copies of a worker's process that a handler makes with `os.fork`.

A copy that gets out of its handler would be a second worker: it would report the same Run, commit
the same transaction through the same connection, and take orders. So it ends there, as it would at
the end of a program.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType


class Original:
    """Only the process that has entered leaves it again."""

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            _end(error)


def _end(error: BaseException | None) -> None:
    status = 0
    try:
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            status = 1
            traceback.print_exception(error)
    finally:
        os._exit(status & 0xFF)
