"""What stands behind a handler's context inside a worker's child process."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from sync_scheduler import clock, conf
from sync_scheduler.jobs import codec, payload
from sync_scheduler.jobs.payload import is_sealed
from sync_scheduler.jobs.redaction import has_secrets, redacted_text
from sync_scheduler.models import Run
from sync_scheduler.store import steps
from sync_scheduler.work.wire import Message, Order, note

_BEAT_SECONDS = 0.2
_MESSAGE_BYTES = 2000


def without_secrets(order: Order, text: str) -> str:
    """What a handler says, before it is cut, stored and told: rows have many readers."""
    if not text or not has_secrets(order.job):
        return text
    given = codec.read(order.input)
    # What cannot be decoded never reached the handler: the text says why, and nothing else.
    return text if is_sealed(given) else redacted_text(order.job, given, text)


class Send(Protocol):
    """How a message gets to the parent."""

    def __call__(self, message: Message, *, flush: bool) -> None: ...


class WorkerBacking:
    """One per attempt. `cancelled` and `timed_out` are set from another thread."""

    __slots__ = ("_order", "_send", "_sent_at", "_unsent", "cancelled", "stop", "timed_out")

    def __init__(self, order: Order, send: Send) -> None:
        self._order = order
        self._send = send
        self._sent_at = -_BEAT_SECONDS
        self._unsent: tuple[float | None, str, float] | None = None
        self.cancelled = False
        self.timed_out = False
        # Stops what a plain handler's thread awaits, if it does; see `work.awaiting`.
        self.stop: Callable[[], None] | None = None

    def hear(self, kind: str) -> bool:
        """Keep what the parent says; whether a handler that awaits something is to be stopped.

        A cancel is told again and again until the handler has ended, and stops it only once: the
        next would strike its clean-up.
        """
        if kind == "cancel":
            is_news = not (self.cancelled or self.timed_out)
            self.cancelled = True
            return is_news
        self.timed_out = True
        return True

    @property
    def _id(self) -> uuid.UUID:
        return uuid.UUID(self._order.run)

    def load_run(self) -> Run | None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._read_run()
        # Django refuses a query in a thread whose event loop runs; a property cannot be awaited.
        return _beside_the_loop().submit(self._read_run_afresh).result()

    def _read_run(self) -> Run | None:
        return Run.objects.filter(id=self._id).first()

    def _read_run_afresh(self) -> Run | None:
        close_old_connections()  # this thread's may have died since the last handler asked
        return self._read_run()

    def is_cancelled(self) -> bool:
        return self.cancelled

    def beat(self, progress: float | None, message: str) -> None:
        message = payload.clean_text(without_secrets(self._order, str(message)), _MESSAGE_BYTES)
        now, at = clock.monotonic(), clock.unix_seconds()
        if now - self._sent_at >= _BEAT_SECONDS:
            self._sent_at, self._unsent = now, None
            self._tell(progress, message, at)
        else:
            self._unsent = (progress, message, at)

    def flush(self) -> None:
        """Send the last beat that was held back, so that the end shows the true progress."""
        if self._unsent is not None:
            self._tell(*self._unsent)
            self._unsent = None

    def _tell(self, progress: float | None, message: str, at: float) -> None:
        self._send(note("progress", self._order.run, progress, message, at), flush=True)

    def recall(self, name: str) -> tuple[bool, Any]:
        return steps.recall(self._id, name)

    def remember(self, name: str, result: Any) -> Any:
        limit = conf.get().MAX_RESULT_BYTES
        kept = payload.normalise(result, f"The result of step {name!r}", limit)
        steps.remember(self._id, name, kept, attempt=self._order.attempt, token=self._order.token)
        return kept

    async def arecall(self, name: str) -> tuple[bool, Any]:
        return await sync_to_async(self.recall)(name)

    async def aremember(self, name: str, result: Any) -> Any:
        return await sync_to_async(self.remember)(name, result)


@functools.cache
def _beside_the_loop() -> ThreadPoolExecutor:
    """One thread, and so one connection, for whatever async handlers ask without awaiting it."""
    return ThreadPoolExecutor(1, thread_name_prefix="beside-the-loop")
