"""A child: runs handlers, in threads or in an event loop, and reports how they ended.

It decides nothing. Its parent may take back what has not begun, tell a handler to stop, and kill
the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections, reset_queries

from sync_scheduler import clock
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.control import TimeLimit
from sync_scheduler.work.backing import WorkerBacking
from sync_scheduler.work.execute import aexecute, execute, outcome_of
from sync_scheduler.work.wire import Order, Reader, Report, note

# Reports of tiny jobs travel together, but never wait longer than this for company.
_FLUSH_SECONDS, _FLUSH_COUNT = 0.003, 64


class Outbox:
    """Reports on their way to the parent."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._since = 0.0

    def add(self, line: bytes, *, flush: bool) -> None:
        with self._lock:
            if not self._lines:
                self._since = clock.monotonic()
            self._lines.append(line)
            waited = clock.monotonic() - self._since
            if flush or len(self._lines) >= _FLUSH_COUNT or waited >= _FLUSH_SECONDS:
                # Sent before it is forgotten: a time limit that strikes a heartbeat right here
                # may send reports twice, which is harmless, but never lose another handler's.
                self._sock.sendall(b"".join(self._lines))
                self._lines = []


class Running:
    """A plain handler that is being executed by a thread."""

    def __init__(self, backing: WorkerBacking) -> None:
        self.backing = backing
        self.thread_id = threading.get_ident()
        self.lock = threading.Lock()
        self.ended = False

    def interrupt(self) -> None:
        """Raise TimeLimit in the handler's thread, unless it has just ended."""
        with self.lock:
            if not self.ended:
                _raise_in(self.thread_id, TimeLimit)

    def end(self) -> None:
        with self.lock:
            self.ended = True
            # What was raised but has not arrived yet must not hit the next handler.
            _raise_in(self.thread_id, None)


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    value = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), value)


class Child:
    def __init__(self, sock: socket.socket, threads: int) -> None:
        self._sock = sock
        self._outbox = Outbox(sock)
        self._threads = threads
        self._waiting: deque[Order] = deque()
        self._changed = threading.Condition()
        self._running: dict[str, Running] = {}
        self._tasks: dict[str, tuple[asyncio.Task[None], WorkerBacking]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self) -> None:
        """Read orders until the parent says quit or is gone."""
        _keep_connections()
        for number in range(self._threads):
            threading.Thread(target=self._work, name=f"handler-{number}", daemon=True).start()
        reader = Reader()
        while data := self._sock.recv(1 << 16):
            messages = reader.feed(data)
            orders = [Order(*facts) for kind, *facts in messages if kind == "run"]
            self._accept(orders)
            for kind, *facts in messages:
                if kind == "quit":
                    return
                if kind != "run":
                    self._obey(kind, facts)
        os._exit(1)

    def _accept(self, orders: list[Order]) -> None:
        plain = []
        for order in orders:
            job = registry.find(order.job)
            if job is not None and job.is_async:
                self._start_async(order)
            else:
                plain.append(order)
        if plain:
            with self._changed:
                self._waiting.extend(plain)
                self._changed.notify(len(plain))

    def _obey(self, kind: str, facts: list[Any]) -> None:
        if kind == "recall":
            self._recall(set(facts[0]))
            return
        run = facts[0]
        running, task = self._running.get(run), self._tasks.get(run)
        if running is not None:
            if kind == "cancel":
                running.backing.cancelled = True
            else:
                running.interrupt()
        elif task is not None and self._loop is not None:
            if kind == "cancel":
                task[1].cancelled = True
            self._loop.call_soon_threadsafe(task[0].cancel)

    def _recall(self, runs: set[str]) -> None:
        with self._changed:
            back = [order.run for order in self._waiting if order.run in runs]
            self._waiting = deque(o for o in self._waiting if o.run not in runs)
        self._outbox.add(note("recalled", back), flush=True)

    def _progress(self, run: str) -> Callable[[float | None, str, float], None]:
        def send(fraction: float | None, message: str, at: float) -> None:
            self._outbox.add(note("progress", run, fraction, message, at), flush=True)

        return send

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                order = self._waiting.popleft()
            self._send(self._attempt(order))

    def _attempt(self, order: Order) -> Report:
        backing = WorkerBacking(order, self._progress(order.run))
        running = self._running[order.run] = Running(backing)
        started = clock.now().timestamp()
        try:
            close_old_connections()
            return execute(order, backing)
        except BaseException as error:  # noqa: BLE001  # or this thread would end
            # A time limit that arrived between the handler's end and ours, say.
            return outcome_of(order, started, error)
        finally:
            running.end()
            del self._running[order.run]
            _tidy_connections()

    def _send(self, report: Report) -> None:
        self._outbox.add(report.line(), flush=not self._waiting)

    def _start_async(self, order: Order) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True).start()
        self._loop.call_soon_threadsafe(self._create_task, order)

    def _create_task(self, order: Order) -> None:
        backing = WorkerBacking(order, self._progress(order.run))

        async def attempt() -> None:
            report = await aexecute(order, backing)
            self._tasks.pop(order.run, None)
            self._outbox.add(report.line(), flush=True)

        assert self._loop is not None  # noqa: S101  # this runs inside it
        self._tasks[order.run] = (self._loop.create_task(attempt()), backing)


def _keep_connections() -> None:
    """A child lives long: connect once and look before use, instead of connecting per run."""
    for alias in connections.settings:
        connections.settings[alias]["CONN_MAX_AGE"] = None
        connections.settings[alias]["CONN_HEALTH_CHECKS"] = True


def _tidy_connections() -> None:
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block or connection.errors_occurred:
            connection.in_atomic_block = False
            connection.close()
    reset_queries()
