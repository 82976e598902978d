"""The worker's parent: claims in batches, feeds its children, records in batches.

One thread turns this loop. Everything that may block for long (Redis, heartbeats) is done by
others, which wake it through a pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import uuid
from collections import deque
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from sync_scheduler import clock, conf, signals
from sync_scheduler.models import Run
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pool import ChildHandle, Pool
from sync_scheduler.processes.source import Source
from sync_scheduler.processes.supervision import Supervision
from sync_scheduler.store.claims import Claim
from sync_scheduler.work import claim as claiming
from sync_scheduler.work import complete
from sync_scheduler.work.wire import Report, note

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
_CHECK_SECONDS = 0.02
_TROUBLE_SECONDS = 0.5


class Worker:
    def __init__(
        self, pool: Pool, source_queues: tuple[str, ...], node: str, *, drain: bool = False
    ) -> None:
        self._settings = conf.get()
        self._pool = pool
        self._node = node
        self._drain = drain
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._queues = source_queues
        self._source = Source(source_queues, self.wake)
        self._known = claiming.known()
        self._pace = Pace()
        self._pending: deque[Claim] = deque()
        self._ledger = Ledger()
        self._supervision = Supervision(node)
        self._lost: deque[uuid.UUID] = deque()
        self._found: deque[Claim] = deque()
        self._stopping = threading.Event()
        self._at_once = threading.Event()
        self._stop_at = 0.0
        self._trouble_until = 0.0
        self._checked_at = 0.0
        self._looked = False
        self.may_drain = threading.Event()

    # What other threads call.

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def stop(self, *, at_once: bool = False) -> None:
        """Stop claiming; finish or give back. `at_once`: give back now."""
        if at_once:
            self._at_once.set()
        self._stop_at = self._stop_at or clock.monotonic() + self._settings.SHUTDOWN_GRACE
        self._stopping.set()
        self.wake()

    def held(self) -> dict[uuid.UUID, int]:
        """What is being executed: Run id to token."""
        return {
            held.claim.id: held.claim.token
            for child in list(self._pool)
            for held in list(child.held.values())
        }

    def running_count(self) -> int:
        return self._pool.held_count()

    def lost(self, run_id: uuid.UUID) -> None:
        """This Run was cancelled or taken away; its handler should stop."""
        self._lost.append(run_id)
        self.wake()

    def found(self, claim: Claim) -> None:
        """The database says that this Run is being executed here as well."""
        self._found.append(claim)
        self.wake()

    def paused(self, queues: frozenset[str]) -> None:
        """Nothing of these queues may start."""
        self._source.pause(queues)

    # The loop.

    def run(self) -> None:
        self._pool.fill()
        while not self._is_finished():
            self._collect(self._pause())
            self._watch_children()
            self._ledger.settle(idle=self._pool.held_count() == 0)
            if self._stopping.is_set():
                self._wind_down()
            else:
                self._take()
                self._feed()
        self._source.stop()
        self._ledger.settle(idle=True, patient=False)
        connections.close_all()

    def _is_finished(self) -> bool:
        empty = not self._pending and self._pool.held_count() == 0 and self._ledger.is_empty()
        if self._stopping.is_set():
            out_of_time = clock.monotonic() > self._stop_at + 5
            return empty or out_of_time
        return self._drain and empty and self._looked and self.may_drain.is_set()

    def _pause(self) -> float:
        """How long nothing needs to happen unless something comes in."""
        if self._stopping.is_set():
            return 0.05
        if clock.monotonic() < self._trouble_until:
            return _TICK_SECONDS
        if self._pending or (self._room() > 0 and self._source.has_hints()):
            return 0.0 if self._can_feed() else _TICK_SECONDS
        pause = _TICK_SECONDS if self._pool.held_count() else 1.0
        if self._drain:
            pause = min(pause, 0.02)
        if self._room() > 0:
            pause = min(pause, self._source.seconds_to_poll())
        return min(pause, self._ledger.seconds_to_flush())

    def _can_feed(self) -> bool:
        if not self._pending:
            return True
        return any(child.accepts(self._pending[0], self._pace) for child in self._pool)

    def _room(self) -> int:
        return sum(child.room(self._pace) for child in self._pool) - len(self._pending)

    def _take(self) -> None:
        room = min(self._room(), self._settings.CLAIM_BATCH)
        if room <= 0 or clock.monotonic() < self._trouble_until:
            return
        try:
            ids = self._source.ids(room)
            if ids:
                self._pending.extend(claiming.claim_ids(ids, self._node, self._known))
            elif self._source.poll_is_due() or (self._drain and not self._looked):
                found = claiming.poll(
                    self._queues, room, self._node, self._known, self._source.paused
                )
                self._source.polled(full=len(found) >= room)
                self._pending.extend(found)
                self._looked = not found
            elif self._drain and self._pool.held_count() == 0:
                self._looked = claiming.poll_is_empty(
                    self._queues, self._known, self._source.paused
                )
        except (DatabaseError, InterfaceError) as error:
            self._trouble(error)

    def _trouble(self, error: Exception) -> None:
        text = str(error).strip().splitlines()
        logger.warning(
            "cannot claim: %s",
            text[0] if text else type(error).__name__,
            extra={"event": "claim_failed"},
        )
        self._trouble_until = clock.monotonic() + _TROUBLE_SECONDS
        connections.close_all()

    def _feed(self) -> None:
        if not self._pending:
            return
        shares: dict[ChildHandle, list[Claim]] = {}
        waiting: deque[Claim] = deque()
        while self._pending:
            claim = self._pending.popleft()
            takers = [child for child in self._pool if child.accepts(claim, self._pace)]
            if not takers and claim.suspect:
                takers = self._pool.isolate()
            if not takers:
                waiting.append(claim)
                continue
            child = min(takers, key=lambda one: (len(one.held), one.pid))
            # Held at once, so that the next question counts it; sent in one go below.
            child.reserve(claim, self._pace)
            shares.setdefault(child, []).append(claim)
        self._pending = waiting
        for child, share in shares.items():
            child.deliver(share, self._node)
        if signals.run_started.receivers:
            self._tell_started([claim for share in shares.values() for claim in share])

    def _tell_started(self, begun: list[Claim]) -> None:
        for claim in begun:
            signals.notify(
                signals.run_started,
                Run,
                run_id=claim.id,
                job=claim.job,
                attempt=claim.attempt,
                node=self._node,
            )

    def _collect(self, pause: float) -> None:
        unsent = [child.sock for child in self._pool if child.has_unsent]
        sources: list[socket.socket | int] = [*self._pool.children, self._wake_read]
        readable, writable, _ = select.select(sources, unsent, [], pause)
        for sock in writable:
            self._pool.children[sock].flush()
        for one in readable:
            if isinstance(one, int):
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                continue
            child = self._pool.children[one]
            try:
                data = child.sock.recv(1 << 18)
            except OSError:
                data = b""
            if not data:
                self._bury(child)
                continue
            for kind, *facts in child.reader.feed(data):
                self._hear(child, kind, facts)
        while self._lost:
            self._pass_on_loss(self._lost.popleft())
        while self._found:
            self._give_back_stranger(self._found.popleft())

    def _hear(self, child: ChildHandle, kind: str, facts: list[Any]) -> None:
        if kind == "end":
            report = Report(*facts)
            held = child.finish(report.run)
            if held is not None:
                self._pace.learn(held.claim.job, report.finished - report.started)
                self._ledger.note_report(held.claim, report, self._node)
        elif kind == "progress":
            held = child.held.get(facts[0])
            if held is not None:
                self._ledger.note_progress(held.claim, facts[1:], self._node)
        elif kind == "recalled":
            for run in facts[0]:
                held = child.finish(run)
                if held is not None:
                    self._pending.append(held.claim)

    def _pass_on_loss(self, run_id: uuid.UUID) -> None:
        for child in self._pool:
            if run_id.hex in child.held:
                child.send(note("cancel", run_id.hex))

    def _give_back_stranger(self, claim: Claim) -> None:
        is_ours = any(one.id == claim.id for one in self._pending) or self._ledger.has(claim.id)
        if not is_ours and not any(claim.id.hex in child.held for child in self._pool):
            self._ledger.note(complete.given_back(claim, self._node, "its claim got lost"))

    def _watch_children(self) -> None:
        now = clock.monotonic()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        for child in list(self._pool):
            self._supervision.look_after(child, now)
        if not self._stopping.is_set():
            self._pool.fill()

    def _bury(self, child: ChildHandle) -> None:
        how = self._pool.remove(child)
        for held in reversed(child.waiting()):
            self._pending.appendleft(held.claim)
        for ending in self._supervision.endings(child, how, on_purpose=self._at_once.is_set()):
            self._ledger.note(ending)

    def _wind_down(self) -> None:
        """Stop claiming, hand back what has not begun, wait for the rest as long as we may."""
        while self._pending:
            self._ledger.note(complete.given_back(self._pending.popleft(), self._node))
        out_of_time = self._at_once.is_set() or clock.monotonic() > self._stop_at
        for child in list(self._pool):
            child.recall_waiting()
            if out_of_time and child.held:
                self._at_once.set()
                child.kill()
