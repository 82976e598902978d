"""Processes that handlers start: what they must not inherit from the child they come from.

A copy (`multiprocessing`, `os.fork`) that kept our pipes would hide the death of the child for as
long as it lives itself. And a program that is born with SIGTERM ignored cannot be ended with
`terminate()`.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Sequence
from types import FrameType


def keep_for_ourselves(pipes: Sequence[socket.socket]) -> None:
    """To be called once, in a child, by its main thread."""
    # Ctrl-C in a terminal strikes whatever was started from it, and must not break into handlers:
    # neither into this process nor into the programs that it starts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # SIGTERM is meant for one process. A program keeps what is ignored, and forgets a function.
    signal.signal(signal.SIGTERM, _pass_over)
    for pipe in pipes:
        os.set_inheritable(pipe.fileno(), False)

    before = threading.local()

    def hold_back() -> None:
        # A SIGTERM for a copy that is just being made must not be passed over.
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def tidy_copy() -> None:
        for pipe in pipes:
            pipe.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=tidy_copy)


def _pass_over(number: int, frame: FrameType | None) -> None:
    """The parent decides when a child ends."""
