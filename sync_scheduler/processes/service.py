"""A node: dispatcher, worker and pulse under one roof, started and stopped together."""

from __future__ import annotations

import io
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from types import FrameType

from django.db import connections

import sync_scheduler
from sync_scheduler import conf
from sync_scheduler.coordination import announcer
from sync_scheduler.jobs import registry
from sync_scheduler.processes import health, offspring
from sync_scheduler.processes.child import Child
from sync_scheduler.processes.dispatcher import Dispatcher
from sync_scheduler.processes.nursery import Nursery
from sync_scheduler.processes.pool import Pool
from sync_scheduler.processes.slate import Slate
from sync_scheduler.processes.watch import Watch
from sync_scheduler.processes.worker import Worker
from sync_scheduler.store import nodes
from sync_scheduler.timing import zones

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this node does."""

    queues: tuple[str, ...] = ()
    processes: int = 0
    threads: int = 0
    dispatch: bool = True
    work: bool = True
    drain: bool = False
    health_port: int | None = None


def leave_pools() -> None:
    """Let this process and its children connect by themselves, whatever `OPTIONS` say of a pool.

    Each thread of ours keeps a connection for as long as it lives, which a small pool would not
    give to all of them; and the threads that fill a pool do not survive the fork of a child.
    """
    for connection in connections.all():
        options = connection.settings_dict.get("OPTIONS", {})
        if not options.get("pool"):
            continue
        connection.close()
        if connection.alias in getattr(connection, "_connection_pools", {}):
            connection.close_pool()  # type: ignore[attr-defined]  # asked where there is none, it makes one
        connection.settings_dict["OPTIONS"] = {k: v for k, v in options.items() if k != "pool"}


class Service:
    def __init__(self, plan: Plan) -> None:
        settings = conf.get()
        self._plan = plan
        self._queues = plan.queues or settings.QUEUES
        self._threads = plan.threads or settings.THREADS
        self._processes = plan.processes or settings.PROCESSES or (os.cpu_count() or 1)
        self.node = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._worker: Worker | None = None
        self._dispatcher: Dispatcher | None = None
        self._done = threading.Event()
        self._signals = 0

    def run(self) -> None:
        """Until a signal, or, when draining, until nothing is ready."""
        # First of all, while this process has a single thread and no connection, and has said what
        # it had to say: a copy of that would be said again.
        sys.stdout.flush()
        nursery = Nursery(self._child_main) if self._plan.work else None
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if nursery is not None:
            pool = Pool(
                nursery,
                size=self._processes,
                threads=self._threads,
                async_slots=conf.get().ASYNC_SLOTS,
            )
            self._worker = Worker(pool, self._queues, self.node, drain=self._plan.drain)
        watch = Watch(self._facts(), self._worker)
        watch.start()
        probe = None
        try:
            if self._plan.health_port:
                probe = health.serve(self._plan.health_port, self.is_alive)
            logger.info(
                "node %s started (%s)", self.node, self._roles(), extra={"event": "node_started"}
            )
            self._run_parts()
        finally:
            if probe is not None:
                probe.shutdown()
            if nursery is not None:
                # While the pulse still beats, and before we sign off: from then on others may begin
                # what our children still run.
                nursery.close()
            watch.stop()
            announcer.flush(2.0)
            self._leave()
            logger.info("node %s stopped", self.node, extra={"event": "node_stopped"})

    def _run_parts(self) -> None:
        if self._plan.dispatch:
            self._dispatcher = Dispatcher(self.node)
            self._dispatcher.start()
        if self._worker is None:
            self._done.wait()
        elif not self._done.is_set():
            if self._dispatcher is None:
                self._worker.may_drain.set()
            elif self._plan.drain:
                threading.Thread(target=self._allow_draining, daemon=True).start()
            self._worker.run()
        if self._dispatcher is not None:
            self._dispatcher.stop()

    def _allow_draining(self) -> None:
        """What is due now must have become Runs before 'nothing is ready' means anything."""
        assert self._dispatcher is not None and self._worker is not None  # noqa: S101
        self._dispatcher.wait_first_pass(conf.get().LEADER_LEASE * 2)
        self._worker.may_drain.set()
        self._worker.wake()

    def stop(self, *, at_once: bool = False) -> None:
        self._done.set()
        if self._worker is not None:
            self._worker.stop(at_once=at_once)

    def is_alive(self) -> bool:
        return not self._done.is_set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        self.stop(at_once=self._signals > 1)

    def _child_main(self, control: socket.socket, orders: socket.socket, slate: int) -> None:
        offspring.keep_for_ourselves([control, orders])
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Line by line: a child is killed in the end, and with it what it has not said.
            sys.stdout.reconfigure(line_buffering=True)
        Child(control, orders, Slate.of(slate), self._threads).serve()

    def _leave(self) -> None:
        try:
            nodes.leave(self.node)
        except Exception as error:  # noqa: BLE001  # we are going anyway; others notice by silence
            logger.warning("could not sign off: %s", type(error).__name__)
        connections.close_all()

    def _roles(self) -> str:
        roles = (("dispatch", self._plan.dispatch), ("work", self._plan.work))
        return "+".join(role for role, on in roles if on)

    def _facts(self) -> nodes.NodeFacts:
        return nodes.NodeFacts(
            name=self.node,
            host=socket.gethostname(),
            pid=os.getpid(),
            roles=self._roles(),
            version=(conf.get().CODE_VERSION or sync_scheduler.__version__)[:50],
            tzdata=zones.tzdata_version()[:50],
            queues=self._queues,
            jobs=tuple(sorted(registry.known_names())),
            slots=self._processes * self._threads if self._plan.work else 0,
        )
