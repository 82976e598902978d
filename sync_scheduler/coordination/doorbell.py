"""A blocking pop whose answer is waited for beside other things, in a `select`.

Whoever waits in a thread of its own must hand over what it got, and waking a thread takes longer
than all of Redis does. So the question is sent here, the answer is read when the connection has
something to read, and nothing in between waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sync_scheduler import clock
from sync_scheduler.coordination.client import UNREACHABLE, blocking_client, keys
from sync_scheduler.coordination.ready_queue import ID

# How much later than promised an answer may come before the server counts as gone.
_PATIENCE_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Popped:
    """An id, and where it was."""

    id: str
    queue: str
    score: float


class Doorbell:
    """Not for several threads. What fails raises one of `client.UNREACHABLE`, and it is closed."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest = longest_seconds
        self._client: Any = None
        self._connection: Any = None
        self._queues: dict[str, str] = {}
        self._deadline = 0.0
        self.is_waiting = False

    def fileno(self) -> int:
        number: int = self._connection._sock.fileno()  # noqa: SLF001  # the library has no other
        return number

    def wait(self, queue_names: Sequence[str], seconds: float) -> None:
        """Ask for the next id of these queues; the server answers within so many seconds."""
        names = keys()
        self._queues = {names.ready(queue): queue for queue in queue_names}
        try:
            if self._connection is None:
                self._connection = self._connect(next(iter(self._queues)))
            self._connection.send_command("BZPOPMIN", *self._queues, max(seconds, 0.001))
        except UNREACHABLE:
            self.close()
            raise
        self.is_waiting = True
        self._deadline = clock.monotonic() + seconds + _PATIENCE_SECONDS

    def is_late(self) -> bool:
        return self.is_waiting and clock.monotonic() > self._deadline

    def answer(self) -> Popped | None:
        """What has come, without waiting; `is_waiting` says whether it still may."""
        if not self.is_waiting:
            return None
        try:
            if not self._connection.can_read(0):
                if self.is_late():
                    raise TimeoutError("Redis does not answer.")
                return None
            found = self._connection.read_response()
        except UNREACHABLE:
            self.close()
            raise
        self.is_waiting = False
        if found is None or not ID.match(found[1]):
            return None
        return Popped(id=found[1], queue=self._queues[found[0]], score=float(found[2]))

    def close(self) -> None:
        self.is_waiting = False
        if self._connection is not None:
            self._connection.disconnect()
        if self._client is not None:
            self._client.close()
        self._connection = self._client = None

    def _connect(self, key: str) -> Any:
        """A connection that nobody else uses; its client must outlive it."""
        self._client = using = blocking_client(self._longest)
        if hasattr(using, "get_node_from_key"):  # a Cluster: all our names live on one node
            using = using.get_redis_connection(using.get_node_from_key(key))
        made = using.connection_pool.make_connection()
        made.connect()
        return made
