"""Real nodes in processes of their own, what was really started, and what must hold afterwards.

A `Site` is everything that a test's nodes share: the database that Django is connected to, the
environment that configures them, and a ledger file. Each node is a `runscheduler` in its own
process group, so that a test can kill or freeze it with its children, or one of them alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from sync_scheduler import lifecycle
from sync_scheduler.models import Attempt, Run
from sync_scheduler.store import nodes
from tests.services.server import wait_until
from tests.testapp.models import Effect

PROJECT = Path(__file__).parents[2]
# Short leases, so that the death of a node is noticed within a test's patience.
QUICK = {
    "SYNC_SCHEDULER_NODE_LEASE": "2",
    "SYNC_SCHEDULER_NODE_HEARTBEAT": "0.5",
    "SYNC_SCHEDULER_LEADER_LEASE": "1",
    "SYNC_SCHEDULER_LEADER_HEARTBEAT": "0.1",
    "SYNC_SCHEDULER_POLL_INTERVAL": "0.2",
    "SYNC_SCHEDULER_SWEEP_INTERVAL": "0.5",
    "SYNC_SCHEDULER_RECONCILE_INTERVAL": "0.5",
    "SYNC_SCHEDULER_SHUTDOWN_GRACE": "20",
}


class Node:
    """One `runscheduler` with its nursery and its children."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
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

    def wait_started(self) -> None:
        def started() -> bool:
            if not self.is_running:
                raise AssertionError(f"the node ended while starting\n{self.output()}")
            return "started (" in self.output()

        wait_until(started, seconds=40, what="the node has started")

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

    def kill(self) -> None:
        """SIGKILL of the parent alone; its children must not outlive it by themselves."""
        self.process.kill()
        self.process.wait(10)

    def kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(10)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self, seconds: float = 40) -> int:
        """SIGTERM, and how it ended."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        return self.process.wait(seconds)


class Site:
    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.environment = {**QUICK, **(environment or {})}
        self.nodes: list[Node] = []
        self.kills = 0

    def start(self, *options: str, wait: bool = True, **environment: str) -> Node:
        """A node; `--no-dispatch` unless the test asks for a dispatcher by `dispatch`."""
        options = options or ("--no-dispatch",)
        node = Node(
            [sys.executable, "-m", "django", "runscheduler", *options],
            self._environment(environment),
            self.folder / f"node-{len(self.nodes)}.log",
        )
        self.nodes.append(node)
        if wait:
            node.wait_started()
        return node

    def run_python(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A process of a user's project: Django is set up, then the code runs."""
        return subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{code}"],
            cwd=PROJECT,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "LEDGER_FILE": str(self.ledger),
            **self.environment,
            **more,
        }

    def close(self) -> None:
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.process.wait(10)

    # What really happened.

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def starts(self, run: Run) -> int:
        """How often a handler was really entered for this Run."""
        return sum(1 for line in self.lines() if line.startswith("start") and str(run.id) in line)

    def wait_line(self, *parts: str, seconds: float = 20) -> None:
        self.wait(
            lambda: any(all(part in line for part in parts) for line in self.lines()),
            f"the ledger says {' '.join(parts)}",
            seconds,
        )

    def wait_ended(self, runs: Iterable[Run], seconds: float = 30) -> None:
        ids = [run.id for run in runs]

        def ended() -> bool:
            return not any(
                Run.objects.filter(id__in=ids[i : i + 500], status__in=lifecycle.ACTIVE).exists()
                for i in range(0, len(ids), 500)
            )

        self.wait(ended, f"{len(ids)} runs have ended", seconds)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
        try:
            wait_until(condition, seconds=seconds, what=what, every=0.03)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def report(self) -> str:
        """What a person needs to see when something has gone wrong."""
        states = Counter(Run.objects.values_list("job", "status", "reason"))
        logs = "\n".join(f"--- {n.log.name}\n{n.output()[-4000:]}" for n in self.nodes)
        return f"runs: {dict(states)}\n{logs}"


def take_back_lost(lease: float = 2.0) -> int:
    """What the leader's sweep does for nodes that have been silent for a lease."""
    taken = 0
    for silence in nodes.silences():
        if silence.seconds >= lease:
            taken += len(nodes.take_back(silence).accepted)
    return taken


def audit(site: Site, *, atomic: Iterable[Run] = (), plain: Iterable[Run] = ()) -> None:
    """The invariants that no fault may break; call when everything has ended.

    I3: everything is terminal. I4: one effect per completed atomic run, none otherwise. I5: a
    plain handler was entered once, unless an attempt says why it was entered again.
    """
    left = Run.objects.filter(status__in=lifecycle.ACTIVE)
    assert not left.exists(), f"I3: {left.count()} runs never ended\n{site.report()}"
    atomic = list(atomic)
    if atomic:
        effects = Counter(Effect.objects.values_list("run", flat=True))
        completed = {
            str(run_id)
            for run_id in Run.objects.filter(status="completed").values_list("id", flat=True)
        }
        wrong = {
            str(run.id): effects[str(run.id)]
            for run in atomic
            if effects[str(run.id)] != (1 if str(run.id) in completed else 0)
        }
        assert not wrong, f"I4: effects that are not exactly one: {list(wrong.items())[:10]}"
    for run in plain:
        excused = Attempt.objects.filter(run_id=run.id).exclude(outcome="completed").count()
        assert site.starts(run) <= 1 + excused, f"I5: {run.id} was entered {site.starts(run)} times"


def pause(seconds: float) -> None:
    """Let time pass where it is the time itself that is tested."""
    time.sleep(seconds)
