"""What a parent does about children that hang, grow or die."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sync_scheduler import conf
from sync_scheduler.processes.handle import ChildHandle, Held
from sync_scheduler.store.outcomes import Ending
from sync_scheduler.work import complete
from sync_scheduler.work.wire import note

logger = logging.getLogger(__name__)

# How long a handler that was told to stop may take before its process is killed.
_HARD_GRACE_SECONDS = 1.0
# A child whose current run is slower than this gives back what waits behind it.
_SLOW_SECONDS = 0.25


class Supervision:
    def __init__(self, node: str) -> None:
        self._node = node
        self._settings = conf.get()

    def look_after(self, child: ChildHandle, now: float) -> None:
        begun = child.begun()
        for held in begun:
            self._enforce_timeout(child, held, now)
        slowest = max((now - held.began for held in begun if held.began), default=0.0)
        if slowest > _SLOW_SECONDS:
            child.recall_waiting()
        self._recycle(child)

    def endings(self, child: ChildHandle, how: str, *, on_purpose: bool) -> Iterator[Ending]:
        """A child is gone: whoever was running may be the cause, whoever waited is not."""
        begun = [held for held in child.begun() if not held.is_unheard]
        if begun and not on_purpose:
            logger.error("child %d died with %d runs: %s", child.pid, len(begun), how)
        overdue = [held for held in begun if held.timeout_sent is not None]
        for held in begun:
            if held in overdue:
                yield complete.killed(held.claim, self._node)
            elif overdue or on_purpose:
                yield complete.given_back(held.claim, self._node)
            else:
                yield complete.crashed(
                    held.claim,
                    self._node,
                    f"While this ran, {how}.",
                    guilty=len(begun) == 1,
                    limit=self._settings.CRASH_LIMIT,
                )

        for held in child.begun():
            if held.is_unheard:
                yield complete.given_back(held.claim, self._node, "its outcome was lost")

    def _enforce_timeout(self, child: ChildHandle, held: Held, now: float) -> None:
        limit = held.claim.timeout_seconds
        if limit is None or held.began is None or now - held.began < limit:
            return
        if held.timeout_sent is None:
            held.timeout_sent = now
            child.send(note("timeout", held.claim.id.hex))
        elif now - held.timeout_sent > _HARD_GRACE_SECONDS:
            child.kill()

    def _recycle(self, child: ChildHandle) -> None:
        s = self._settings
        memory = child.memory_mb() if s.RECYCLE_MEMORY_MB or s.MAX_MEMORY_MB else 0.0
        if s.MAX_MEMORY_MB and memory > s.MAX_MEMORY_MB:
            logger.error("child %d uses %.0f MB and is killed", child.pid, memory)
            child.kill()
        elif (
            (s.RECYCLE_RUNS and child.done_count >= s.RECYCLE_RUNS)
            or (s.RECYCLE_MEMORY_MB and memory > s.RECYCLE_MEMORY_MB)
            or (child.isolated and not child.held)
        ):
            child.retiring = True
            child.recall_waiting()
            if not child.held:
                child.send(note("quit"))
