"""Outcomes on their way into the database: collected for a moment, then written together.

Nothing leaves here before it is recorded or known not to be ours any more; while the database
is away, outcomes wait.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from sync_scheduler import clock, conf
from sync_scheduler.jobs import registry
from sync_scheduler.processes.scribe import Batch, Scribe
from sync_scheduler.store import progress
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.outcomes import Ending
from sync_scheduler.work import complete
from sync_scheduler.work.wire import Report

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 0.005
_PROGRESS_SECONDS = 0.25
_RETRY_SECONDS = 0.5
_FAREWELL_SECONDS = 1.0
# So many batches may wait for the database before the worker claims no more.
_MOST_BATCHES = 4


class Ledger:
    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._scribe = Scribe(wake)
        self._endings: list[Ending] = []
        self._stored: list[Ending] = []
        self._writing: list[Ending] = []
        self._since = 0.0
        self._retry_at = 0.0
        # Whether the last batch came back, and none has been handed over since.
        self.is_refused = False
        self._progress: dict[uuid.UUID, progress.Progress] = {}
        self._progress_at = 0.0
        self._batch = conf.get().CLAIM_BATCH

    def is_empty(self) -> bool:
        return not (self._endings or self._stored or self._writing)

    def room(self) -> int:
        """How many more runs may be begun before the database must catch up."""
        return _MOST_BATCHES * self._batch - len(self._endings) - len(self._writing)

    def seconds_to_flush(self) -> float:
        now = clock.monotonic()
        if self._endings or self._stored:
            if self._scribe.is_busy:
                return 3600.0  # it wakes us
            return max(0.0, max(self._since + _FLUSH_SECONDS, self._retry_at) - now)
        if self._progress:
            return max(0.0, self._progress_at + _PROGRESS_SECONDS - now)
        return 3600.0

    def has(self, run_id: uuid.UUID) -> bool:
        """Whether an outcome of this Run is still on its way."""
        return any(ending.claim.id == run_id for ending in (*self._endings, *self._writing))

    def note(self, ending: Ending) -> None:
        if not self._endings:
            self._since = clock.monotonic()
        self._endings.append(ending)

    def note_report(self, claim: Claim, report: Report, node: str) -> None:
        """A handler has ended."""
        if report.kind == "lost":
            # No longer ours: whoever took it over decides. It will be refused, but what was
            # cancelled has kept its place until now.
            if claim.guard is not None or claim.gate is not None:
                self.note(complete.given_back(claim, node, "its claim got lost"))
            return
        if report.kind == "stored":
            self._stored.append(complete.ending_of(claim, report._replace(kind="done"), node))
        else:
            self.note(complete.ending_of(claim, report, node))

    def note_progress(self, claim: Claim, facts: list[Any], node: str) -> None:
        """How far a handler is: a fraction or None, a message, and when it said so."""
        fraction, message, at = facts
        job = registry.find(claim.job)
        self._progress[claim.id] = progress.Progress(
            run_id=claim.id,
            token=claim.token,
            attempt=claim.attempt,
            node=node,
            at=dt.datetime.fromtimestamp(at, dt.UTC),
            progress=fraction,
            message=message,
            touch_run=job is None or not job.policy.atomic,
        )

    def settle(self, *, idle: bool, patient: bool = True) -> None:
        """Write what is due; everything if nothing else is going on."""
        now = clock.monotonic()
        # The last beat of a handler is written before its end, or it would be refused.
        ending = self._progress and any(e.claim.id in self._progress for e in self._endings)
        self._write_progress(now, force=idle or bool(ending))
        if self._scribe.is_busy:
            return
        self._writing = []
        self._take_back()
        if not (self._endings or self._stored) or (patient and now < self._retry_at):
            return
        full = len(self._endings) >= self._batch
        if idle or full or now - self._since >= _FLUSH_SECONDS:
            batch = self._next_batch()
            if idle:
                self._scribe.write(batch)
                self._take_back()
            else:
                self._writing = batch.endings
                self._scribe.hand_over(batch)

    def close(self) -> None:
        """Write the last of it, whatever was tried before."""
        self._scribe.wait(_FAREWELL_SECONDS)
        self.settle(idle=True, patient=False)
        self._scribe.stop()
        if not self.is_empty():
            logger.error(
                "%d outcomes could not be recorded; their runs will be taken up again",
                len(self._endings) + len(self._writing),
                extra={"event": "outcomes_lost"},
            )

    def _next_batch(self) -> Batch:
        batch = Batch(self._endings, self._stored)
        self._endings, self._stored = [], []
        self.is_refused = False
        return batch

    def _take_back(self) -> None:
        if left := self._scribe.left_over():
            self._endings = [*left, *self._endings]
            self._retry_at = clock.monotonic() + _RETRY_SECONDS
            self.is_refused = True

    def _write_progress(self, now: float, *, force: bool) -> None:
        if not self._progress or not (force or now - self._progress_at >= _PROGRESS_SECONDS):
            return
        entries, self._progress = list(self._progress.values()), {}
        self._progress_at = now
        try:
            progress.record(entries)
        except (DatabaseError, InterfaceError) as error:
            text = str(error).strip().splitlines()
            logger.warning(
                "progress could not be stored (%s)",
                text[0] if text else type(error).__name__,
                extra={"event": "progress_failed"},
            )
            connections.close_all()
