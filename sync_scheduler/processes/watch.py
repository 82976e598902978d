"""A node's pulse: its heartbeat, and what it must learn about the Runs it holds.

A thread of the parent with a connection of its own. Handlers run in other processes, so nothing
that they do can make the node look dead.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client, control
from sync_scheduler.store import claims, nodes
from sync_scheduler.store.locking import database_now

logger = logging.getLogger(__name__)

# How often the rows of running Runs are looked at; Redis tells of a cancel sooner.
_LOOK_SECONDS, _LOOK_SECONDS_BESIDE_REDIS = 0.4, 2.0


class Watch:
    def __init__(
        self,
        facts: nodes.NodeFacts,
        *,
        held: Callable[[], Mapping[uuid.UUID, int]],
        running: Callable[[], int],
        on_lost: Callable[[uuid.UUID], None],
        on_found: Callable[[claims.Claim], None],
    ) -> None:
        self._facts = facts
        self._held = held
        self._running = running
        self._on_lost = on_lost
        self._on_found = on_found
        self._strangers: set[tuple[uuid.UUID, int]] = set()
        self._stopped = threading.Event()
        self._beat_at = 0.0
        self._troubled = False
        self._threads = [threading.Thread(target=self._pulse, name="pulse", daemon=True)]
        if conf.get().uses_redis:
            self._threads.append(threading.Thread(target=self._listen, name="control", daemon=True))

    def start(self) -> None:
        nodes.enter(self._facts)
        self._beat_at = clock.monotonic() + conf.get().NODE_HEARTBEAT
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._threads[0].join(timeout=5)

    def _pulse(self) -> None:
        uses_redis = conf.get().uses_redis
        pause = _LOOK_SECONDS_BESIDE_REDIS if uses_redis else _LOOK_SECONDS
        pause = min(pause, conf.get().NODE_HEARTBEAT)
        while not self._stopped.wait(pause):
            try:
                close_old_connections()
                self._look()
                if clock.monotonic() >= self._beat_at:
                    self._beat()
                self._troubled = False
            except (DatabaseError, InterfaceError) as error:
                self._trouble(error)
        connections.close_all()

    def _beat(self) -> None:
        offset = (database_now() - clock.now()).total_seconds()
        if not nodes.beat(self._facts.name, running=self._running(), clock_offset=offset):
            nodes.enter(self._facts)
        self._beat_at = clock.monotonic() + conf.get().NODE_HEARTBEAT

    def _look(self) -> None:
        held = self._held()
        holdings = nodes.holdings(self._facts.name)
        for run_id, token in held.items():
            if holdings.get(run_id) != token:
                self._on_lost(run_id)
        # Claimed, but the answer of the database was lost: nobody else would ever look at them.
        # Seen twice, since what was claimed a moment ago is not in anybody's hands yet.
        strangers = {item for item in holdings.items() if item[0] not in held}
        for run_id, token in strangers & self._strangers:
            if (claim := claims.current(run_id, token)) is not None:
                self._on_found(claim)
        self._strangers = strangers

    def _trouble(self, error: Exception) -> None:
        if not self._troubled:
            text = str(error).strip().splitlines()
            logger.warning(
                "no heartbeat: the database cannot be used (%s)",
                text[0] if text else type(error).__name__,
                extra={"event": "heartbeat_failed"},
            )
        self._troubled = True
        connections.close_all()

    def _listen(self) -> None:
        listener = control.Listener(1.0)
        while not self._stopped.is_set():
            try:
                cancelled = listener.next_cancelled()
                if cancelled is not None:
                    self._on_lost(uuid.UUID(cancelled))
            except client.UNREACHABLE:
                listener.close()
                self._stopped.wait(1.0)
            except ValueError:
                continue  # not an id; anybody may publish
        listener.close()
