"""Pushes to Redis that nobody waits for.

A submit has committed when it comes here: the caller must neither wait for Redis nor fail because
of it. What comes after a pause is sent at once, and a background thread awaits the answer; what
comes in between is collected and pushed in one go. What cannot be pushed, the reconciler will.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Sequence

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client
from sync_scheduler.coordination.courier import Courier
from sync_scheduler.coordination.ready_queue import Ready, push

logger = logging.getLogger(__name__)

_CAPACITY = 100_000
_FLUSH_SECONDS = 0.5
_TOGETHER_SECONDS = 0.005
_BATCH = 1000
# More than this is not sent on the caller's time.
_MOST_AT_ONCE = 10


@dataclasses.dataclass(frozen=True, slots=True)
class _Lot:
    """What one commit left behind. It is read when it is pushed, not while somebody waits."""

    size: int
    read: Callable[[], Sequence[Ready]]


class _Announcer:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lots: list[_Lot] = []
        self._waiting = 0
        # Used by whoever adds while nothing is under way, and otherwise by the thread.
        self._courier = Courier()
        self._pushed_at = 0.0
        # Whether all is pushed changes together with what waits, so that flush() can be believed.
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        thread = threading.Thread(target=self._work, name="sync-scheduler-announcer", daemon=True)
        thread.start()

    def add(self, lot: _Lot) -> None:
        with self._lock:
            if self._waiting >= _CAPACITY:
                return  # left to the reconciler
            if not self._is_sent_at_once(lot):
                self._lots.append(lot)
                self._waiting += lot.size
            self._idle.clear()
        # Set already: the thread has not begun to take what waits, and will find this too.
        if not self._wake.is_set():
            self._wake.set()

    def flush(self, seconds: float) -> bool:
        return self._idle.wait(seconds)

    def _is_sent_at_once(self, lot: _Lot) -> bool:
        """The first one goes at once. While many come, they travel together: every push takes
        the interpreter away from whoever submits."""
        if not self._idle.is_set() or lot.size > _MOST_AT_ONCE or self._seconds_to_push() > 0:
            return False
        return self._courier.send(_read(lot))

    def _seconds_to_push(self) -> float:
        return max(0.0, self._pushed_at + _TOGETHER_SECONDS - clock.monotonic())

    def _work(self) -> None:
        while True:
            self._wake.wait()
            clock.sleep(self._seconds_to_push())
            self._wake.clear()
            lots, sent = self._take()
            entries = [*self._courier.settle(sent), *(e for lot in lots for e in _read(lot))]
            for start in range(0, len(entries), _BATCH):
                self._push(entries[start : start + _BATCH])
            if entries and not client.is_broken():
                with contextlib.suppress(*client.UNREACHABLE):
                    self._courier.open()
            self._pushed_at = clock.monotonic()
            self._rest()

    def _take(self) -> tuple[list[_Lot], Sequence[Ready]]:
        with self._lock:
            taken, self._lots, self._waiting = self._lots, [], 0
            return taken, self._courier.take()

    def _rest(self) -> None:
        with self._lock:
            if not self._lots and not self._courier.has_sent:
                self._idle.set()

    def _push(self, batch: list[Ready]) -> None:
        if client.is_broken():
            return
        try:
            push(batch)
        except client.UNREACHABLE as error:
            client.report_broken()
            logger.warning(
                "Redis cannot be reached (%s); %d runs wait for the reconciler",
                type(error).__name__,
                len(batch),
                extra={"event": "push_failed"},
            )


def _read(lot: _Lot) -> Sequence[Ready]:
    try:
        return lot.read()
    except Exception:  # the thread must outlive whatever became of these rows
        logger.exception("runs could not be announced", extra={"event": "push_failed"})
        return ()


_lock = threading.Lock()
_current: _Announcer | None = None


def announce(entries: Sequence[Ready]) -> None:
    """Hand over ids for pushing; returns at once and never raises."""
    announce_later(len(entries), lambda: entries)


def announce_later(size: int, read: Callable[[], Sequence[Ready]]) -> None:
    """The same for ids that are only read when they are pushed."""
    global _current
    announcer = _current
    if announcer is None or announcer.pid != os.getpid():
        with _lock:
            if _current is None or _current.pid != os.getpid():
                _current = _Announcer()
            announcer = _current
    announcer.add(_Lot(size, read))


def announce_if_redis(entries: Sequence[Ready]) -> None:
    if conf.get().uses_redis:
        announce(entries)


def flush(seconds: float = _FLUSH_SECONDS) -> bool:
    """Wait until everything handed over has been pushed or given up; False: not in time."""
    if _current is None or _current.pid != os.getpid():
        return True
    return _current.flush(seconds)


# A short script submits and ends: give the last push a moment.
atexit.register(flush)
