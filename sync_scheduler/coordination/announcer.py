"""Pushes to Redis that nobody waits for.

A submit has committed when it comes here: the caller must neither wait for Redis nor fail because
of it. A background thread collects what many submits left behind and pushes it in one go. What
it cannot push, the reconciler will.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client
from sync_scheduler.coordination.ready_queue import Ready, push

logger = logging.getLogger(__name__)

_CAPACITY = 100_000
_FLUSH_SECONDS = 0.5
_TOGETHER_SECONDS = 0.005


class _Announcer:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self._pending: deque[Ready] = deque(maxlen=_CAPACITY)
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        thread = threading.Thread(target=self._work, name="sync-scheduler-announcer", daemon=True)
        thread.start()

    def add(self, entries: Iterable[Ready]) -> None:
        # In this order: seen as idle between the two, it is cleared and comes back by itself.
        self._pending.extend(entries)
        self._idle.clear()
        self._wake.set()

    def flush(self, seconds: float) -> bool:
        return self._idle.wait(seconds)

    def _work(self) -> None:
        pushed_at = 0.0
        while True:
            self._wake.wait()
            # The first one goes at once. While many come, they travel together: every push
            # takes the interpreter away from whoever submits.
            clock.sleep(max(0.0, pushed_at + _TOGETHER_SECONDS - clock.monotonic()))
            self._wake.clear()
            batch: list[Ready] = []
            while self._pending and len(batch) < 1000:
                batch.append(self._pending.popleft())
            if self._pending:
                self._wake.set()
            self._push(batch)
            pushed_at = clock.monotonic()
            if not self._pending:
                self._idle.set()

    def _push(self, batch: list[Ready]) -> None:
        if not batch or client.is_broken():
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


_lock = threading.Lock()
_current: _Announcer | None = None


def announce(entries: Iterable[Ready]) -> None:
    """Hand over ids for pushing; returns at once and never raises."""
    global _current
    announcer = _current
    if announcer is None or announcer.pid != os.getpid():
        with _lock:
            if _current is None or _current.pid != os.getpid():
                _current = _Announcer()
            announcer = _current
    announcer.add(entries)


def announce_if_redis(entries: Iterable[Ready]) -> None:
    if conf.get().uses_redis:
        announce(entries)


def flush(seconds: float = _FLUSH_SECONDS) -> bool:
    """Wait until everything handed over has been pushed or given up; False: not in time."""
    if _current is None or _current.pid != os.getpid():
        return True
    return _current.flush(seconds)


# A short script submits and ends: give the last push a moment.
atexit.register(flush)
