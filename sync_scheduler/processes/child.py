"""A child: runs handlers, in threads or in an event loop, and reports how they ended.

It decides nothing. Its parent may take back what has not begun, tell a handler to stop, and kill
the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from sync_scheduler import clock
from sync_scheduler.jobs.control import TimeLimit
from sync_scheduler.processes.slate import Slate
from sync_scheduler.processes.vital import start_vital
from sync_scheduler.store.locking import is_in_transaction
from sync_scheduler.work.backing import WorkerBacking
from sync_scheduler.work.execute import aexecute, execute, outcome_of
from sync_scheduler.work.wire import Message, Order, Reader, Report, frame, note

logger = logging.getLogger(__name__)

# Reports of tiny jobs travel together; whoever comes later than this takes the others along.
_FLUSH_SECONDS, _FLUSH_COUNT = 0.003, 64
# They never wait longer than this for company.
_LONGEST_SECONDS = 0.01
_CHUNK = 1 << 16


class Outbox:
    """Reports on their way to the parent."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._since = 0.0
        self._left = threading.Event()
        start_vital("postman", self._send_left)

    def add(self, message: Message, *, flush: bool) -> None:
        with self._lock:
            now = clock.monotonic()
            if not self._messages:
                self._since = now
            self._messages.append(message)
            if flush or len(self._messages) >= _FLUSH_COUNT or now - self._since >= _FLUSH_SECONDS:
                self._send()
            elif not self._left.is_set():
                self._left.set()

    def _send(self) -> None:
        # Sent before it is forgotten: a time limit that strikes a heartbeat right here may send
        # reports twice, which is harmless, but never lose another handler's.
        self._sock.sendall(frame(self._messages))
        self._messages = []

    def _send_left(self) -> None:
        """Nobody may come to take a report along: the next handler may run for an hour."""
        while True:
            self._left.wait()
            clock.sleep(_LONGEST_SECONDS)
            with self._lock:
                self._left.clear()
                if self._messages:
                    self._send()


class Running:
    """A plain handler that is being executed by a thread."""

    __slots__ = ("_is_interrupted", "backing", "ended", "lock", "thread_id")

    def __init__(self, backing: WorkerBacking) -> None:
        self.backing = backing
        self.thread_id = threading.get_ident()
        self.lock = threading.Lock()
        self.ended = False
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Raise TimeLimit in the handler's thread, unless it has just ended."""
        with self.lock:
            if not self.ended:
                self._is_interrupted = True
                _raise_in(self.thread_id, TimeLimit)

    def end(self) -> None:
        with self.lock:
            self.ended = True
            if self._is_interrupted:
                # What was raised but has not arrived yet must not hit the next handler.
                _raise_in(self.thread_id, None)


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    value = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), value)


class Child:
    """Plain orders come through `orders`, where whichever thread is free takes the next one.

    All else comes through `control`, which is read at any time: async orders, and what the parent
    has to say about orders. Reports go back there.
    """

    def __init__(
        self, control: socket.socket, orders: socket.socket, slate: Slate, threads: int
    ) -> None:
        self._control = control
        self._orders = orders
        self._slate = slate
        self._outbox = Outbox(control)
        self._threads = threads
        self._reader = Reader()
        # Held by the one idle thread that waits for orders; never while a handler runs.
        self._reading = threading.Lock()
        self._picking = threading.Lock()
        self._waiting: deque[Order] = deque()
        self._running: dict[str, Running] = {}
        self._tasks: dict[str, tuple[asyncio.Task[None], WorkerBacking]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self) -> None:
        """Listen until the parent says quit or is gone."""
        _keep_connections()
        for number in range(self._threads):
            start_vital(f"handler-{number}", self._work, number)
        reader = Reader()
        while data := self._control.recv(_CHUNK):
            for kind, *facts in reader.feed(data):
                if kind == "quit":
                    return
                if kind == "run":
                    self._start_async(Order(*facts))
                else:
                    self._obey(kind, facts)
        os._exit(1)

    def _obey(self, kind: str, facts: list[Any]) -> None:
        if kind == "recall":
            self._recall(set(facts[0]))
            return
        run = facts[0]
        running, task = self._running.get(run), self._tasks.get(run)
        if running is not None:
            is_news, stop = running.backing.hear(kind), running.backing.stop
            if stop is not None and is_news:
                stop()
            elif kind != "cancel":
                running.interrupt()
        elif task is not None and self._loop is not None and task[1].hear(kind):
            self._loop.call_soon_threadsafe(task[0].cancel)

    def _recall(self, runs: set[str]) -> None:
        # Nobody reads: every thread is busy, and orders may have piled up in the pipe.
        if self._reading.acquire(blocking=False):
            try:
                while data := self._orders.recv(_CHUNK, socket.MSG_DONTWAIT):
                    self._accept(data)
            except BlockingIOError:
                pass
            finally:
                self._reading.release()
        with self._picking:
            back = [order.run for order in self._waiting if order.run in runs]
            self._waiting = deque(o for o in self._waiting if o.run not in runs)
        self._outbox.add(note("recalled", back), flush=True)

    def _work(self, number: int) -> None:
        used = UsedConnections()
        while True:
            report = self._attempt(self._next(number), used)
            self._outbox.add(report.message, flush=not self._waiting)
            # Not before: one that keeps its own report from being sent is to be charged for that.
            self._slate.put_down(number)

    def _next(self, number: int) -> Order:
        """The next order, read here: waking another thread costs more than a tiny handler."""
        while True:
            with self._picking:
                if self._waiting:
                    order = self._waiting.popleft()
                    self._slate.take(number, order.run)
                    return order
            with self._reading:
                if not self._waiting:
                    data = self._orders.recv(_CHUNK)
                    if not data:
                        threading.Event().wait()  # the parent is gone, and so are we in a moment
                    self._accept(data)

    def _accept(self, data: bytes) -> None:
        orders = [Order._make(facts) for _, *facts in self._reader.feed(data)]
        with self._picking:
            self._waiting.extend(orders)

    def _attempt(self, order: Order, used: UsedConnections) -> Report:
        backing = WorkerBacking(order, self._outbox.add)
        running = self._running[order.run] = Running(backing)
        try:
            used.look()
            # What a handler sets for itself (a language, a time zone) ends with it.
            return contextvars.copy_context().run(execute, order, backing)
        except BaseException as error:  # noqa: BLE001  # or this thread would end
            # A time limit that arrived between the handler's end and ours, say.
            return outcome_of(order, clock.unix_seconds(), error)
        finally:
            running.end()
            del self._running[order.run]
            used.tidy()

    def _start_async(self, order: Order) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            start_vital("event-loop", self._turn_loop, self._loop)
        self._loop.call_soon_threadsafe(self._create_task, order)

    def _turn_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """A handler may stop the loop, or exit in a task or callback; the others need it."""
        while True:
            try:
                loop.run_forever()
            except BaseException:  # what it raised there is the outcome of whoever awaits it
                logger.exception("a handler broke into the event loop", extra={"event": "loop"})

    def _create_task(self, order: Order) -> None:
        backing = WorkerBacking(order, self._outbox.add)

        async def attempt() -> None:
            report = await aexecute(order, backing)
            self._tasks.pop(order.run, None)
            self._outbox.add(report.message, flush=True)

        assert self._loop is not None  # noqa: S101  # this runs inside it
        self._tasks[order.run] = (self._loop.create_task(attempt()), backing)


def _keep_connections() -> None:
    """A child lives long: connect once and look before use, instead of connecting per run."""
    for alias in connections.settings:
        connections.settings[alias]["CONN_MAX_AGE"] = None
        connections.settings[alias]["CONN_HEALTH_CHECKS"] = True


class UsedConnections:
    """The database connections that handlers of one thread leave behind for the next ones.

    What Django does around a request, without looking for them three times.
    """

    def __init__(self) -> None:
        self._open: Sequence[BaseDatabaseWrapper] = ()

    def look(self) -> None:
        """Before a handler: close what is too old or broken."""
        for connection in self._open:
            connection.close_if_unusable_or_obsolete()

    def tidy(self) -> None:
        """After it: leave no transaction, no error and no log of statements to the next."""
        self._open = connections.all(initialized_only=True)
        for connection in self._open:
            connection.queries_log.clear()
            if connection.errors_occurred or is_in_transaction(connection):
                connection.in_atomic_block = False
                connection.close()
