"""A slate: memory on which a child notes what it has in hand, and which outlives its process.

Reports travel together, so a child that is killed takes some with it to its grave. The slate costs
no system call, and tells its parent which Runs had begun, which had ended unheard, and which had
only waited.
"""

from __future__ import annotations

import mmap
import os
import tempfile

_ID_BYTES = 16
_NOTHING = bytes(_ID_BYTES)


class Slate:
    """The Run that was taken last, then the Run in the hands of each thread."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @staticmethod
    def new(threads: int) -> tuple[Slate, int]:
        """An empty slate and a descriptor of it, which the caller gives to the child and closes."""
        descriptor = _memory()
        os.truncate(descriptor, _ID_BYTES * (1 + threads))
        return Slate.of(descriptor), descriptor

    @staticmethod
    def of(descriptor: int) -> Slate:
        return Slate(mmap.mmap(descriptor, 0))

    # What the child writes.

    def take(self, thread: int, run: str) -> None:
        noted = bytes.fromhex(run)
        self._write(1 + thread, noted)
        self._write(0, noted)

    def put_down(self, thread: int) -> None:
        self._write(1 + thread, _NOTHING)

    # What the parent reads.

    def last_taken(self) -> str:
        return self._memory[:_ID_BYTES].hex()

    def in_hand(self) -> set[str]:
        """What threads had begun and not ended."""
        noted = (
            self._memory[at : at + _ID_BYTES]
            for at in range(_ID_BYTES, len(self._memory), _ID_BYTES)
        )
        return {one.hex() for one in noted if one != _NOTHING}

    def close(self) -> None:
        self._memory.close()

    def _write(self, place: int, noted: bytes) -> None:
        at = place * _ID_BYTES
        self._memory[at : at + _ID_BYTES] = noted


def _memory() -> int:
    """No file where that can be: there may be no disk, and a full one would kill who writes."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("slate")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
