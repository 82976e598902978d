"""Where a worker's ids come from: Redis while it answers, the database always.

A thread blocks in Redis while the worker is idle, so that a submit is picked up within
milliseconds; the poll of the database is the guarantee behind it, and all there is without Redis.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client, local, queues, ready_queue

logger = logging.getLogger(__name__)

_BLOCK_SECONDS = 1.0
# With Redis at work the poll only catches what slipped.
_SLOW_POLL = 5.0
_RETRY_SECONDS = 1.0


class Source:
    def __init__(self, wanted_queues: Sequence[str], wake: Callable[[], None]) -> None:
        self._wanted = tuple(wanted_queues)
        self._wake = wake
        self._uses_redis = conf.get().uses_redis
        self._found: deque[str] = deque()
        self._idle = threading.Event()
        self._stopped = threading.Event()
        self._redis_works = self._uses_redis
        self._poll_at = 0.0
        self._dry = False
        self._turn = 0
        self._names: tuple[str, ...] = ()
        self.paused: frozenset[str] = frozenset()
        self._stop_listening = local.listen(self._on_local)
        if self._uses_redis:
            self._thread = threading.Thread(target=self._listen, name="ready-waiter", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._idle.set()
        self._stop_listening()

    def ids(self, count: int) -> list[uuid.UUID]:
        """Ids from Redis, without waiting; none when it has none or does not answer."""
        if not self._uses_redis or not self._redis_works:
            return []
        found = [self._found.popleft() for _ in range(min(len(self._found), count))]
        # What the waiting thread brought is claimed first; asking for more can wait that long.
        if not self._dry and not found:
            try:
                if names := self._in_turn():
                    found += ready_queue.pop(names, count - len(found))
            except client.UNREACHABLE as error:
                self._redis_failed(error)
            self._dry = len(found) < count
        if self._dry:
            self._idle.set()
        return [uuid.UUID(one) for one in found]

    def poll_is_due(self) -> bool:
        return clock.monotonic() >= self._poll_at

    def polled(self, *, full: bool) -> None:
        """A poll was made; when the next one is due depends on whether it found enough."""
        pause = _SLOW_POLL if self._redis_works else conf.get().POLL_INTERVAL
        jittered = pause * random.uniform(0.75, 1.25)  # noqa: S311
        self._poll_at = clock.monotonic() + (0.0 if full else jittered)

    def seconds_to_poll(self) -> float:
        return max(0.0, self._poll_at - clock.monotonic())

    def has_hints(self) -> bool:
        """Whether asking Redis again may give something."""
        return self._uses_redis and self._redis_works and (bool(self._found) or not self._dry)

    def queue_names(self) -> tuple[str, ...]:
        names = self._wanted or self._names or ("default",)
        return tuple(name for name in names if name not in self.paused)

    def pause(self, names: frozenset[str]) -> None:
        """Take nothing from these queues; from all others again."""
        if names != self.paused:
            self.paused, self._dry, self._poll_at = names, False, 0.0
            self._wake()

    def _in_turn(self) -> tuple[str, ...]:
        """Queues that were named are served in that order; all others take turns."""
        names = self.queue_names()
        if self._wanted or not names:
            return names
        self._turn = (self._turn + 1) % len(names)
        return names[self._turn :] + names[: self._turn]

    def _on_local(self) -> None:
        if not self._redis_works:
            self._poll_at = 0.0
            self._wake()

    def _redis_failed(self, error: BaseException) -> None:
        if self._redis_works:
            logger.warning(
                "Redis at %s cannot be reached (%s); taking work from the database",
                client.shown_url(),
                type(error).__name__,
                extra={"event": "redis_lost"},
            )
        self._redis_works = False
        self._poll_at = 0.0
        self._wake()

    def _listen(self) -> None:
        """The waiting thread."""
        blocking: Any = None
        while not self._stopped.is_set():
            try:
                # Some clients (of a Cluster) speak to the server when they are made.
                blocking = blocking or client.blocking_client(_BLOCK_SECONDS)
                self._names = queues.known(blocking)
                if not self._redis_works:
                    logger.info("Redis answers again", extra={"event": "redis_back"})
                    self._redis_works, self._dry = True, False
                    self._wake()
                self._idle.wait(_BLOCK_SECONDS)
                if self._idle.is_set() and not self._stopped.is_set():
                    self._wait_for_one(blocking)
            except client.UNREACHABLE as error:
                self._redis_failed(error)
                self._stopped.wait(_RETRY_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311
        if blocking is not None:
            blocking.close()

    def _wait_for_one(self, blocking: object) -> None:
        names = self.queue_names()
        if not names:
            self._stopped.wait(_BLOCK_SECONDS)
            return
        delay = ready_queue.next_later(names, blocking)
        seconds = _BLOCK_SECONDS if delay is None else min(delay, _BLOCK_SECONDS)
        member = ready_queue.wait(names, max(seconds, 0.001), blocking)
        due = delay is not None and delay <= seconds
        if member is not None:
            self._found.append(member)
        if member is not None or due:
            self._idle.clear()
            self._dry = False
            self._wake()
