"""One `runscheduler` process with its children, and what a test may do to it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.faults import resources
from tests.faults.resources import Survivor
from tests.services.server import wait_until

PROJECT = Path(__file__).parents[2]


class Node:
    """One `runscheduler` with its nursery and its children."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.command = command
        self.descriptors: int | None = None
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_started(self) -> bool:
        return "started (" in self.output()

    def wait_started(self) -> None:
        def started() -> bool:
            if not self.is_running:
                raise AssertionError(f"the node ended while starting\n{self.output()}")
            return self.has_started

        wait_until(started, seconds=90, what="the node has started")
        self.descriptors = resources.descriptors(self.pid)

    def survivor(self) -> Survivor:
        """What the auditor must know of it."""
        return Survivor(
            pid=self.pid,
            # A node that serves some queues only, or ends when it finds nothing, owes nothing.
            works=not any(o.startswith(("--no-work", "--queues", "--drain")) for o in self.command),
            dispatches="--no-dispatch" not in self.command,
            threads=next(
                (int(o.split("=")[1]) for o in self.command if o.startswith("--threads=")), 4
            ),
            descriptors=self.descriptors,
        )

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def children(self) -> list[psutil.Process]:
        """The processes that run handlers: the nursery's children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [
                child
                for nursery in psutil.Process(self.pid).children()
                for child in nursery.children()
            ]
        return []

    def all_children(self) -> list[psutil.Process]:
        """The same, when each has been forked, which a node that says "started" goes on with."""
        wait_until(
            lambda: len(self.children()) >= self.processes, seconds=60, what="every child is there"
        )
        return self.children()

    @property
    def processes(self) -> int:
        given = (int(o.split("=")[1]) for o in self.command if o.startswith("--processes="))
        return next(given, os.cpu_count() or 1)

    def kill(self) -> None:
        """SIGKILL of the parent alone; its children must not outlive it by themselves."""
        self.process.kill()
        self.process.wait(60)

    def kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(60)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self, seconds: float = 90) -> int:
        """SIGTERM, and how it ended."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        return self.process.wait(seconds)
