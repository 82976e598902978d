"""A node's pulse: its heartbeat, and what it must learn about the Runs it holds.

A thread of the parent with a connection of its own. Handlers run in other processes, so nothing
that they do can make the node look dead.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Protocol

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client, control
from sync_scheduler.store import claims, lingering, nodes, queues
from sync_scheduler.store.locking import database_now
from sync_scheduler.work import claim as claiming

logger = logging.getLogger(__name__)

# How often the rows of running Runs are looked at; Redis tells of a cancel sooner.
_LOOK_SECONDS, _LOOK_SECONDS_BESIDE_REDIS = 0.4, 2.0
_QUEUES_SECONDS = 2.0
_OFFSET_SECONDS = 60.0


class Watched(Protocol):
    """A worker, as far as its pulse must ask it and tell it things."""

    def held(self) -> Mapping[uuid.UUID, int]: ...

    def running_count(self) -> int: ...

    def lost(self, run_id: uuid.UUID) -> None: ...

    def found(self, claim: claims.Claim) -> None: ...

    def paused(self, queues: frozenset[str]) -> None: ...


class Watch:
    def __init__(self, facts: nodes.NodeFacts, worker: Watched | None) -> None:
        self._facts = facts
        self._worker = worker
        self._queues_at = 0.0
        self._offset = 0.0
        self._offset_at = 0.0
        self._strangers: set[tuple[uuid.UUID, int]] = set()
        self._stopped = threading.Event()
        self._beat_at = 0.0
        self._troubled = False
        # Whether Redis will tell of cancels; until it does, and while it is away, it will not.
        self._is_told = False
        self._threads = [threading.Thread(target=self._pulse, name="pulse", daemon=True)]
        if worker is not None and conf.get().uses_redis:
            self._threads.append(threading.Thread(target=self._listen, name="control", daemon=True))

    def start(self) -> None:
        nodes.enter(self._facts)
        if self._worker is not None:
            self._look_at_queues(self._worker)
            claiming.release_unlimited()
        self._beat_at = clock.monotonic() + conf.get().NODE_HEARTBEAT
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._threads[0].join(timeout=5)

    def _pulse(self) -> None:
        while not self._stopped.wait(self._pause()):
            try:
                close_old_connections()
                if self._worker is not None:
                    self._look(self._worker)
                    self._look_at_queues(self._worker)
                if clock.monotonic() >= self._beat_at:
                    self._beat()
                self._troubled = False
            except (DatabaseError, InterfaceError) as error:
                self._trouble(error)
            except Exception:
                # Without a pulse this node would work on, and others would begin its Runs again.
                logger.exception("the pulse missed a beat", extra={"event": "pulse_failed"})
                connections.close_all()
        connections.close_all()

    def _pause(self) -> float:
        pause = _LOOK_SECONDS_BESIDE_REDIS if self._is_told else _LOOK_SECONDS
        return min(pause, conf.get().NODE_HEARTBEAT)

    def _beat(self) -> None:
        if clock.monotonic() >= self._offset_at:
            self._offset = (database_now() - clock.now()).total_seconds()
            self._offset_at = clock.monotonic() + _OFFSET_SECONDS
        running = 0 if self._worker is None else self._worker.running_count()
        if not nodes.beat(self._facts.name, running=running, clock_offset=self._offset):
            nodes.enter(self._facts)
        if self._worker is not None:
            self._look_at_queues(self._worker)
            # Cancelled, and nobody here executes it: its place would be kept for ever.
            for claim in lingering.of_node(self._facts.name):
                self._worker.found(claim)
        self._beat_at = clock.monotonic() + conf.get().NODE_HEARTBEAT

    def _look(self, worker: Watched) -> None:
        held = worker.held()
        holdings = nodes.holdings(self._facts.name)
        for run_id, token in held.items():
            if holdings.get(run_id) != token:
                worker.lost(run_id)
        # Claimed, but the answer of the database was lost: nobody else would ever look at them.
        # Seen twice, since what was claimed a moment ago is not in anybody's hands yet.
        strangers = {item for item in holdings.items() if item[0] not in held}
        for run_id, token in strangers & self._strangers:
            if (claim := claims.current(run_id, token)) is not None:
                worker.found(claim)
        self._strangers = strangers

    def _look_at_queues(self, worker: Watched) -> None:
        if clock.monotonic() >= self._queues_at:
            worker.paused(queues.paused())
            self._queues_at = clock.monotonic() + _QUEUES_SECONDS

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
                told = listener.next_note()
                self._is_told = True
                if told == "":
                    self._queues_at = 0.0
                elif told is not None and self._worker is not None:
                    self._worker.lost(uuid.UUID(told))
            except client.UNREACHABLE:
                self._is_told = False
                listener.close()
                self._stopped.wait(1.0)
            except ValueError:
                continue  # not an id; anybody may publish
        listener.close()
