"""Changes for many watchers at the price of one: whoever comes first looks, the others share.

What was seen last is kept in a ring of fixed size. A watcher remembers how far it has read; one
that is so slow that the ring has moved on is told so and starts anew.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict, deque

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from sync_scheduler import clock
from sync_scheduler.store.locking import alias
from sync_scheduler.store.reports import changes
from sync_scheduler.store.reports.changes import Change, Position, Scope

LOOK_SECONDS = 1.0
_RING = 2000
_REMEMBERED = 8000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a watcher is told, and from where it goes on.

    `last` is for this process, `position` for any. `lost`: the watcher was too slow, and some of
    what happened is not here.
    """

    changes: tuple[Change, ...]
    last: int
    position: Position
    lost: bool = False


class Feed:
    def __init__(self, scope: Scope = changes.EVERYTHING) -> None:
        self._scope = scope
        self._lock = threading.Lock()
        self._ring: deque[tuple[int, Change]] = deque(maxlen=_RING)
        self._marks: OrderedDict[object, None] = OrderedDict()
        self._position: Position | None = None
        self._looked_at = clock.monotonic()
        self._last = 0

    def join(self) -> Batch:
        """Where a new watcher begins: it is told what happens from now on."""
        with self._lock:
            if self._is_stale(5 * LOOK_SECONDS):
                # Nobody watched for a while: what happened meanwhile is nobody's news.
                self._position = None
            return Batch(changes=(), last=self._last, position=self._look())

    def after(self, number: int) -> Batch:
        """What a watcher who has read up to this number has not been told yet."""
        with self._lock:
            position = self._look()
            lost = bool(self._ring) and number < self._ring[0][0] - 1
            told = tuple(change for at, change in self._ring if at > number)
            return Batch(changes=told, last=self._last, position=position, lost=lost)

    def _is_stale(self, seconds: float) -> bool:
        return clock.monotonic() - self._looked_at > seconds

    def _look(self) -> Position:
        known = self._position
        if known is not None and not self._is_stale(LOOK_SECONDS / 2):
            return known
        try:
            if known is None:
                self._position = position = changes.current_position()
            else:
                position = self._take(changes.since(known, self._scope))
        finally:
            self._looked_at = clock.monotonic()
            _let_go(connections[alias()])
        return position

    def _take(self, look: changes.Look) -> Position:
        for change in look.changes:
            if change.mark in self._marks:
                continue
            self._marks[change.mark] = None
            self._last += 1
            self._ring.append((self._last, change))
        while len(self._marks) > _REMEMBERED:
            self._marks.popitem(last=False)
        self._position = look.position
        return look.position


def _let_go(used: BaseDatabaseWrapper) -> None:
    """A stream lives long; between two looks it holds no connection that is not kept anyway."""
    if not used.in_atomic_block:
        used.close_if_unusable_or_obsolete()


shared = Feed()
