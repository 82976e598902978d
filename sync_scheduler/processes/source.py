"""Where a worker's ids come from: Redis while it answers, the database always.

While the worker is idle a blocking pop waits in Redis, so that a submit is picked up within
milliseconds; the poll of the database is the guarantee behind it, and all there is without Redis.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client, local, queues, ready_queue
from sync_scheduler.coordination.doorbell import Doorbell, Popped

logger = logging.getLogger(__name__)

_BLOCK_SECONDS = 1.0
# With Redis at work the poll only catches what slipped.
_SLOW_POLL = 5.0
_RETRY_SECONDS = 1.0
# Naming a hundred queues costs more than taking from one of them.
_QUEUES_AT_ONCE = 16


class Source:
    """Used by the worker's loop; only what begins with `_look` runs in a thread of its own."""

    def __init__(self, wanted_queues: Sequence[str], wake: Callable[[], None]) -> None:
        self._wanted = tuple(wanted_queues)
        self._wake = wake
        self._uses_redis = conf.get().uses_redis
        self._doorbell = Doorbell(_BLOCK_SECONDS)
        self._rung: Popped | None = None
        self._stopped = threading.Event()
        self._redis_works = self._uses_redis
        self._poll_at = 0.0
        # Redis is dry while there is no news since it was found empty. A flag would not do: other
        # threads bring the news, and one may come while Redis is being asked for what was known.
        # Each piece of news is a new object, as two threads may lose a count between them.
        self._news = object()
        self._dry_since: object | None = None
        self._later_at = 0.0
        self._turn = 0
        self._names: tuple[str, ...] = ()
        self.paused: frozenset[str] = frozenset()
        self._stop_listening = local.listen(self._on_local)
        if self._uses_redis:
            thread = threading.Thread(target=self._look_after, name="redis-watch", daemon=True)
            thread.start()

    def stop(self) -> None:
        """Take nothing more, and give back what was taken in vain. May be called again."""
        self._stopped.set()
        self._stop_listening()
        with contextlib.suppress(*client.UNREACHABLE):
            self._rung = self._rung or self._doorbell.answer()
            self._return_rung()
        self._doorbell.close()

    # The doorbell: a blocking pop beside the loop's other pipes.

    def pipes(self) -> list[Doorbell]:
        """What to wait for beside everything else."""
        return [self._doorbell] if self._doorbell.is_waiting else []

    def wait_for_one(self) -> None:
        """Nothing is ready: let Redis tell when something is."""
        if self._doorbell.is_late():
            self.hear()
        if not self._is_dry or self._doorbell.is_waiting or not self._can_ask():
            return
        names = self._in_turn()
        left = self._later_at - clock.monotonic()
        try:
            if names:
                self._doorbell.wait(names, min(max(left, 0.001), _BLOCK_SECONDS))
        except client.UNREACHABLE as error:
            self._redis_failed(error)

    def hear(self) -> None:
        """Read the doorbell's answer, if it is there."""
        try:
            self._rung = self._doorbell.answer() or self._rung
        except client.UNREACHABLE as error:
            self._redis_failed(error)
            return
        if not self._doorbell.is_waiting:
            # Rung, or the time is up: then delayed runs may have become due.
            self._dry_since = None

    def refuse(self) -> None:
        """There is no room for what has come: others may have some."""
        with contextlib.suppress(*client.UNREACHABLE):
            self._return_rung()

    def _return_rung(self) -> None:
        if self._rung is not None:
            rung, self._rung = self._rung, None
            ready_queue.put_back(rung.queue, rung.id, rung.score)

    def ids(self, count: int) -> list[uuid.UUID]:
        """Ids from Redis, without waiting; none when it has none or does not answer."""
        if not self._can_ask():
            return []
        if self._rung is not None and self._rung.queue in self.paused:
            self.refuse()
        if self._rung is not None:
            # It is claimed first; asking for more can wait that long.
            rung, self._rung = self._rung, None
            return [uuid.UUID(rung.id)]
        news, names = self._news, self._in_turn()
        if self._is_dry or not names:
            self._dry_since = news
            return []
        try:
            taken = _take(names, count)
        except client.UNREACHABLE as error:
            self._redis_failed(error)
            return []
        self._dry_since = news if taken.is_all else None
        pause = _BLOCK_SECONDS if taken.next_seconds is None else taken.next_seconds
        self._later_at = clock.monotonic() + pause
        return [uuid.UUID(one) for one in taken.ids]

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
        return self._can_ask() and (self._rung is not None or not self._is_dry)

    def queue_names(self) -> tuple[str, ...]:
        names = self._wanted or self._names or ("default",)
        return tuple(name for name in names if name not in self.paused)

    def pause(self, names: frozenset[str]) -> None:
        """Take nothing from these queues; from all others again."""
        if names != self.paused:
            self.paused, self._poll_at = names, 0.0
            self._news = object()
            self._wake()

    @property
    def _is_dry(self) -> bool:
        return self._dry_since is self._news

    def _can_ask(self) -> bool:
        return self._uses_redis and self._redis_works and not self._stopped.is_set()

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

    # In a thread of its own, because it may take long.

    def _look_after(self) -> None:
        """Which queues there are, and whether a server that was gone answers again."""
        asking: Any = None
        while not self._stopped.is_set():
            try:
                # Some clients (of a Cluster) speak to the server when they are made.
                asking = asking or client.blocking_client(_BLOCK_SECONDS)
                names = queues.known(asking)
                if names != self._names or not self._redis_works:
                    self._look_again(names)
                self._stopped.wait(_BLOCK_SECONDS)
            except client.UNREACHABLE as error:
                self._redis_failed(error)
                self._stopped.wait(_RETRY_SECONDS * random.uniform(0.75, 1.25))  # noqa: S311
        if asking is not None:
            asking.close()

    def _look_again(self, names: tuple[str, ...]) -> None:
        if not self._redis_works:
            logger.info("Redis answers again", extra={"event": "redis_back"})
        self._names, self._redis_works = names, True
        self._news = object()
        self._wake()


def _take(names: Sequence[str], count: int) -> ready_queue.Taken:
    """From the first queues, and from all others only if those have too little."""
    taken = ready_queue.take(names[:_QUEUES_AT_ONCE], count)
    rest = names[_QUEUES_AT_ONCE:]
    if not taken.is_all or not rest:
        return taken
    more = ready_queue.take(rest, count - len(taken.ids))
    due = [t.next_seconds for t in (taken, more) if t.next_seconds is not None]
    return ready_queue.Taken(
        ids=taken.ids + more.ids, is_all=more.is_all, next_seconds=min(due, default=None)
    )
