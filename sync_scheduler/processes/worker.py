"""The worker's parent: claims in batches, feeds its children, records in batches.

One thread turns this loop. Everything that may block for long (Redis, heartbeats) is done by
others, which wake it through a pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import uuid
from collections import deque
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from sync_scheduler import clock, conf, signals
from sync_scheduler.models import Run
from sync_scheduler.processes.handle import ChildHandle
from sync_scheduler.processes.leaving import Leaving
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pool import Pool
from sync_scheduler.processes.source import Source
from sync_scheduler.processes.supervision import Supervision
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.statements import kept_plans
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
        self._ledger = Ledger(self.wake)
        self._supervision = Supervision(node)
        self._lost: deque[uuid.UUID] = deque()
        self._found: deque[Claim] = deque()
        self._leaving = Leaving()
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
        self._leaving.begin(at_once=at_once)
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
        self._source.pause(queues)

    # The loop.

    def run(self) -> None:
        self._pool.fill()
        try:
            with kept_plans():
                while not self._is_finished():
                    self._turn()
        finally:
            self._source.stop()
            self._ledger.close()
            self._pool.close()
            connections.close_all()

    def _turn(self) -> None:
        self._collect(self._pause())
        self._watch_children()
        if not self._leaving.is_begun:
            self._take()
        # Asked again: what was being claimed when the signal came is not begun any more.
        if self._leaving.is_begun:
            self._wind_down()
        else:
            self._feed()
            self._listen()
        self._ledger.settle(idle=self._pool.held_count() == 0)

    def _is_finished(self) -> bool:
        empty = not self._pending and self._is_idle()
        if self._leaving.is_begun:
            return empty or self._leaving.is_hopeless(self._ledger)
        return self._drain and empty and self._looked and self.may_drain.is_set()

    def _is_idle(self) -> bool:
        """Nothing runs, and no outcome is on its way that might make a run ready again."""
        return self._pool.held_count() == 0 and self._ledger.is_empty()

    def _pause(self) -> float:
        """How long nothing needs to happen unless something comes in."""
        if self._leaving.is_begun:
            return 0.05
        if clock.monotonic() < self._trouble_until:
            return _TICK_SECONDS
        if self._wanted() > 0 and self._source.has_hints():
            return 0.0
        pause = _TICK_SECONDS if self._pending or self._pool.held_count() else 1.0
        if self._drain:
            pause = min(pause, 0.02)
        if self._room() > 0:
            pause = min(pause, self._source.seconds_to_poll())
        return min(pause, self._ledger.seconds_to_flush())

    def _room(self) -> int:
        """How many more may be claimed. Async runs that find no slot do not stand in others' way,
        unless they are very many."""
        stuck = sum(self._pool.is_async(claim) for claim in self._pending)
        if stuck >= self._settings.CLAIM_BATCH:
            return 0
        room = sum(child.room(self._pace) for child in self._pool) - len(self._pending) + stuck
        return min(room, self._ledger.room())

    def _wanted(self) -> int:
        """How many to claim now: many at once, unless a child would have to wait for them."""
        room, batch = self._room(), self._settings.CLAIM_BATCH
        if room * 2 < batch and not any(child.is_hungry(self._pace) for child in self._pool):
            return 0
        return min(room, batch)

    def _take(self) -> None:
        room = self._wanted()
        if room <= 0 or clock.monotonic() < self._trouble_until:
            self._source.refuse()
            return
        paused = self._source.paused
        try:
            ids = self._source.ids(room)
            if ids:
                self._looked = False
                self._pending.extend(claiming.claim_ids(ids, self._node, self._known))
            elif self._source.poll_is_due() or (self._drain and not self._looked):
                found = claiming.poll(self._queues, room, self._node, self._known, paused)
                self._source.polled(full=len(found) >= room)
                self._pending.extend(found)
                self._looked = not found and self._is_idle()
            elif self._drain and self._is_idle():
                self._looked = claiming.poll_is_empty(self._queues, self._known, paused)
        except Exception as error:  # noqa: BLE001  # nothing here may end the node
            self._trouble(error)

    def _listen(self) -> None:
        """Let Redis ring when something comes, as long as it could be begun."""
        if self._room() > 0 and clock.monotonic() >= self._trouble_until:
            self._source.wait_for_one()

    def _trouble(self, error: Exception) -> None:
        text = [*str(error).strip().splitlines(), type(error).__name__][0]
        trace = not isinstance(error, DatabaseError | InterfaceError)
        logger.warning("cannot claim: %s", text, exc_info=trace, extra={"event": "claim_failed"})
        self._trouble_until = clock.monotonic() + _TROUBLE_SECONDS
        connections.close_all()

    def _feed(self) -> None:
        if not self._pending:
            return
        begun = self._pool.hand_out(self._pending, self._pace, self._node)
        if signals.run_started.receivers:
            self._tell_started(begun)

    def _tell_started(self, begun: list[Claim]) -> None:
        for one in begun:
            facts = {"run_id": one.id, "job": one.job, "attempt": one.attempt, "node": self._node}
            signals.notify(signals.run_started, Run, **facts)

    def _collect(self, pause: float) -> None:
        unsent = {pipe.sock: pipe for pipe in self._pool.pipes() if pipe.has_unsent}
        doorbells = self._source.pipes()
        sources: list[Any] = [*self._pool.children, self._wake_read, *doorbells]
        readable, writable, _ = select.select(sources, unsent, [], pause)
        for sock in writable:
            unsent[sock].flush()
        for one in readable:
            if one == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif one in doorbells:
                self._source.hear()
            else:
                self._read(self._pool.children[one])
        while self._lost:
            self._pass_on_loss(self._lost.popleft())
        while self._found:
            self._give_back_stranger(self._found.popleft())

    def _read(self, child: ChildHandle) -> None:
        try:
            data = child.control.sock.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            self._bury(child)
            return
        for kind, *facts in child.reader.feed(data):
            self._hear(child, kind, facts)

    def _hear(self, child: ChildHandle, kind: str, facts: list[Any]) -> None:
        if kind == "end":
            report = Report._make(facts)
            held = child.finish(report.run, report.token)
            if held is not None:
                self._pace.learn(held.claim.job, report.finished - report.started)
                self._ledger.note_report(held.claim, report, self._node)
        elif kind == "progress":
            held = child.held.get(facts[0])
            if held is not None:
                self._ledger.note_progress(held.claim, facts[1:], self._node)
        elif kind == "recalled":
            for run in facts[0]:
                held = child.take_back(run)
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
        if not self._leaving.is_begun:
            self._pool.fill()

    def _bury(self, child: ChildHandle) -> None:
        how = self._pool.remove(child)
        for held in reversed(child.waiting()):
            self._pending.appendleft(held.claim)
        for ending in self._supervision.endings(child, how, on_purpose=self._leaving.is_over):
            self._ledger.note(ending)

    def _wind_down(self) -> None:
        """Stop claiming, hand back what has not begun, wait for the rest as long as we may."""
        self._source.stop()
        while self._pending:
            self._ledger.note(complete.given_back(self._pending.popleft(), self._node))
        out_of_time = self._leaving.look()
        for child in list(self._pool):
            child.recall_waiting()
            if out_of_time and child.held:
                child.kill()
