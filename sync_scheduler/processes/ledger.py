"""Outcomes on their way into the database: collected for a moment, then written together.

Nothing leaves here before it is recorded or known not to be ours any more; while the database
is away, outcomes wait.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import uuid
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from sync_scheduler import clock, conf
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import State
from sync_scheduler.store import progress
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.locking import is_outage
from sync_scheduler.store.outcomes import Ending
from sync_scheduler.work import complete
from sync_scheduler.work.wire import Report

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 0.005
_PROGRESS_SECONDS = 0.25
_RETRY_SECONDS = 0.5


class Ledger:
    def __init__(self) -> None:
        self._endings: list[Ending] = []
        self._since = 0.0
        self._retry_at = 0.0
        self._progress: dict[uuid.UUID, progress.Progress] = {}
        self._progress_at = 0.0
        self._batch = conf.get().CLAIM_BATCH

    def is_empty(self) -> bool:
        return not self._endings

    def seconds_to_flush(self) -> float:
        if not self._endings and not self._progress:
            return 3600.0
        now = clock.monotonic()
        if self._endings:
            return max(0.0, max(self._since + _FLUSH_SECONDS, self._retry_at) - now)
        return max(0.0, self._progress_at + _PROGRESS_SECONDS - now)

    def has(self, run_id: uuid.UUID) -> bool:
        """Whether an outcome of this Run is still on its way."""
        return any(ending.claim.id == run_id for ending in self._endings)

    def note(self, ending: Ending) -> None:
        if not self._endings:
            self._since = clock.monotonic()
        self._endings.append(ending)

    def note_report(self, claim: Claim, report: Report, node: str) -> None:
        """A handler has ended."""
        if report.kind == "lost":
            return  # no longer ours: whoever took it over decides
        ending = complete.ending_of(
            claim, dataclasses.replace(report, kind="done") if report.kind == "stored" else report,
            node,
        )  # fmt: skip
        if report.kind == "stored":
            complete.tell([ending])
        else:
            self.note(ending)

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
        self._write_progress(now, force=idle)
        if not self._endings or (patient and now < self._retry_at):
            return
        full = len(self._endings) >= self._batch
        if not (idle or full or now - self._since >= _FLUSH_SECONDS):
            return
        endings, self._endings = self._endings, []
        try:
            complete.settle(endings)
        except (DatabaseError, InterfaceError) as error:
            if not is_outage(error):
                self._one_by_one(endings)
                return
            # The database is away: keep everything and come back.
            self._endings = endings + self._endings
            self._retry_at = clock.monotonic() + _RETRY_SECONDS
            self._warn(error)

    def _one_by_one(self, endings: list[Ending]) -> None:
        """One outcome cannot be stored: find it, and store in its place that it could not be."""
        for ending in endings:
            try:
                complete.settle([ending])
            except (DatabaseError, InterfaceError) as error:
                if is_outage(error):
                    self._endings.append(ending)
                    self._warn(error)
                else:
                    logger.exception("an outcome could not be stored as it was")
                    self._endings.append(_plain(ending, error))
        self._retry_at = clock.monotonic() + _RETRY_SECONDS

    def _write_progress(self, now: float, *, force: bool) -> None:
        if not self._progress or not (force or now - self._progress_at >= _PROGRESS_SECONDS):
            return
        entries, self._progress = list(self._progress.values()), {}
        self._progress_at = now
        try:
            progress.record(entries)
        except (DatabaseError, InterfaceError) as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        text = str(error).strip().splitlines()
        logger.warning(
            "the database cannot be used (%s); %d outcomes wait",
            text[0] if text else type(error).__name__,
            len(self._endings),
            extra={"event": "settle_failed"},
        )
        connections.close_all()


def _plain(ending: Ending, error: Exception) -> Ending:
    return dataclasses.replace(
        ending,
        status=State.FAILED if ending.status is State.COMPLETED else ending.status,
        result=None,
        error=f"The outcome could not be stored ({type(error).__name__}).",
        traceback="",
        reason="The outcome could not be stored.",
    )
