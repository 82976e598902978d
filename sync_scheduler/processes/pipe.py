"""A parent's end of a pipe to a child: sends without ever waiting."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from sync_scheduler.work.wire import Message, frame


class Pipe:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._unsent = bytearray()

    def send(self, messages: Iterable[Message]) -> None:
        """A child that does not read must not stop the parent's loop."""
        self._unsent += frame(messages)
        self.flush()

    def flush(self) -> None:
        """Send on what the pipe had no room for."""
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            return
        except OSError:
            # A child that has just died is noticed by its end of file; nothing is lost here.
            self._unsent.clear()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)
