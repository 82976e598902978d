"""Ids that leave for Redis at once, on the caller's own thread; another one awaits the answer.

Waking a thread to send them takes as long as Redis does, and in a process that goes on computing
the thread may wait for its turn for milliseconds. Sending a hundred bytes waits for nothing: what
the system does not take at once is left to the ordinary way.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any

from sync_scheduler import conf
from sync_scheduler.coordination.client import UNREACHABLE, client, is_broken
from sync_scheduler.coordination.ready_queue import Ready, commands

# Servers behind which a write may have to look for another one are left to the library.
_PLAIN = ("redis://", "unix://")


class Courier:
    """One connection, used by one at a time: nothing is sent before the last answer was read.

    `send` and `take` are for whoever holds the lock of the announcer, `settle` for its thread.
    """

    def __init__(self) -> None:
        self._connection: Any = None
        self._url: str | None = None
        self._sent: Sequence[Ready] = ()
        self._answers = 0

    def open(self) -> None:
        """Connect, so that the next `send` can; may take a moment. Raises `UNREACHABLE`."""
        url = conf.get().REDIS_URL
        if self._connection is None and url is not None and url.startswith(_PLAIN):
            made = client().connection_pool.make_connection()
            made.connect()
            self._connection, self._url = made, url

    def send(self, entries: Sequence[Ready]) -> bool:
        """Send these now, without waiting. False: they must go another way."""
        if self._connection is None or is_broken():
            return False
        if self._url != conf.get().REDIS_URL:
            self.close()
            return False
        sock: Any = self._connection._sock  # noqa: SLF001  # the library has no other
        if sock is None or isinstance(sock, ssl.SSLSocket):
            return False
        told = commands(entries)
        if not told:
            return True
        packed = b"".join(self._connection.pack_commands(told))
        try:
            is_sent = sock.send(packed, socket.MSG_DONTWAIT) == len(packed)
        except OSError:
            is_sent = False
        if not is_sent:
            self.close()
            return False
        self._sent, self._answers = entries, len(told)
        return True

    @property
    def has_sent(self) -> bool:
        """Whether something was sent of which nobody has taken notice yet."""
        return bool(self._sent)

    def take(self) -> Sequence[Ready]:
        """What was sent, for whoever reads the answers now."""
        sent, self._sent = self._sent, ()
        return sent

    def settle(self, sent: Sequence[Ready]) -> Sequence[Ready]:
        """Read the answers to what was sent; returns what must be sent again."""
        try:
            for _ in range(self._answers if sent else 0):
                self._connection.read_response()
        except UNREACHABLE:
            self.close()
            return sent
        return ()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None
