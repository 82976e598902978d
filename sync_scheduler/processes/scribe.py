"""Writes outcomes into the database; in a thread of its own while the worker is busy.

While one batch is being written the worker claims and feeds on, and what ends meanwhile makes the
next batch. An idle worker writes itself: waking a thread would take longer than that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, connections

from sync_scheduler.intake.endings import tell
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt
from sync_scheduler.store.locking import is_outage
from sync_scheduler.store.outcomes import Ending
from sync_scheduler.store.statements import kept_plans
from sync_scheduler.work import complete

logger = logging.getLogger(__name__)


class Batch(NamedTuple):
    """`stored` are endings that are in the database already; those who wait must be told."""

    endings: list[Ending]
    stored: list[Ending]


class Scribe:
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left: list[Ending] = []
        self._rests = threading.Event()
        self._rests.set()

    @property
    def is_busy(self) -> bool:
        return not self._rests.is_set()

    def hand_over(self, batch: Batch) -> None:
        """Write it in the thread; only when that is not busy."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="scribe", daemon=True)
            self._thread.start()
        self._rests.clear()
        self._batches.put(batch)

    def left_over(self) -> list[Ending]:
        """What could not be written and must be handed over again; empties itself."""
        left, self._left = self._left, []
        return left

    def wait(self, seconds: float) -> bool:
        """Until the thread rests."""
        return self._rests.wait(seconds)

    def stop(self) -> None:
        self._batches.put(None)

    def write(self, batch: Batch) -> None:
        """Write it here and now. Whatever happens, nothing is lost and nobody has to mind."""
        try:
            self._write(batch)
        except Exception:
            logger.exception("outcomes could not be written")
            self._left = [*self._left, *batch.endings]

    def _write(self, batch: Batch) -> None:
        tell(batch.stored)
        if not batch.endings:
            return
        try:
            complete.settle(batch.endings)
        except (DatabaseError, InterfaceError) as error:
            if is_outage(error):
                # The database is away: keep everything and come back.
                self._keep(batch.endings, error)
            else:
                self._one_by_one(batch.endings)

    def _work(self) -> None:
        with kept_plans():
            while (batch := self._batches.get()) is not None:
                self.write(batch)
                self._rests.set()
                self._wake()
        connections.close_all()

    def _one_by_one(self, endings: list[Ending]) -> None:
        """One outcome cannot be stored: find it, and store in its place that it could not be."""
        for ending in endings:
            try:
                complete.settle([ending])
            except (DatabaseError, InterfaceError) as error:
                if is_outage(error):
                    self._keep([ending], error)
                else:
                    logger.exception("an outcome could not be stored as it was")
                    self._left.append(_plain(ending, error))

    def _keep(self, endings: list[Ending], error: Exception) -> None:
        self._left += endings
        text = str(error).strip().splitlines()
        logger.warning(
            "the database cannot be used (%s); %d outcomes wait",
            text[0] if text else type(error).__name__,
            len(self._left),
            extra={"event": "settle_failed"},
        )
        connections.close_all()


def _plain(ending: Ending, error: Exception) -> Ending:
    if ending.status is State.COMPLETED:
        ending = ending._replace(status=State.FAILED, outcome=Attempt.Outcome.FAILED)
    return ending._replace(
        result=None,
        error=f"The outcome could not be stored ({type(error).__name__}).",
        traceback="",
        reason="The outcome could not be stored.",
    )
