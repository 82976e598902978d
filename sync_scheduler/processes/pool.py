"""The children of a worker's parent: what each of them holds, and what it has just begun."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from sync_scheduler import clock
from sync_scheduler.jobs import registry
from sync_scheduler.processes.nursery import Nursery
from sync_scheduler.processes.pace import Pace
from sync_scheduler.store.claims import Claim
from sync_scheduler.work.wire import Order, Reader, note

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(slots=True)
class Held:
    """A claim that a child holds. `began` is when it must have begun, None while it waits."""

    claim: Claim
    is_async: bool
    cost: float
    began: float | None = None
    timeout_sent: float | None = None
    recalled: bool = False


class ChildHandle:
    """The parent's view of one child."""

    def __init__(
        self,
        pid: int,
        sock: socket.socket,
        threads: int,
        async_slots: int,
        *,
        isolated: bool = False,
    ) -> None:
        self.pid = pid
        # Only for suspects, one at a time, while every other child is busy.
        self.isolated = isolated
        self.sock = sock
        self.reader = Reader()
        self._unsent = bytearray()
        self.held: dict[str, Held] = {}
        self.done_count = 0
        self.retiring = False
        self.solo = False
        self._threads = threads
        self._async_slots = async_slots
        # Kept as sums, because they are asked for with every claim that is handed out.
        self._plain = 0
        self._async = 0
        self._cost = 0.0

    def reserve(self, claim: Claim, pace: Pace) -> None:
        """Count a claim as held; it is sent with the next `deliver`."""
        job = registry.find(claim.job)
        held = Held(claim, is_async=job is not None and job.is_async, cost=pace.usual(claim.job))
        self.held[claim.id.hex] = held
        self.solo = self.solo or claim.suspect
        if held.is_async:
            self._async += 1
        else:
            self._plain += 1
            self._cost += held.cost
        if held.is_async or self._plain <= self._threads:
            held.began = clock.monotonic()

    def deliver(self, claims: Iterable[Claim], node: str) -> None:
        """Send reserved claims, together."""
        lines = []
        for claim in claims:
            slot = None if claim.slot is None else claim.slot.isoformat()
            order = Order(
                claim.id.hex, claim.job, claim.input, claim.attempt, claim.token, claim.trigger,
                slot, claim.depth, node,
            )  # fmt: skip
            lines.append(order.line())
        self.send(b"".join(lines))

    def send(self, data: bytes) -> None:
        """Never waits: a child that does not read must not stop the parent's loop."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        """Send on what the child's pipe had no room for."""
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            return
        except OSError:
            # A child that has just died is noticed by its end of file; nothing is lost here.
            self._unsent.clear()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def finish(self, run: str) -> Held | None:
        held = self.held.pop(run, None)
        if held is None:
            return None
        self.done_count += 1
        if held.is_async:
            self._async -= 1
        else:
            self._plain -= 1
            self._cost -= held.cost
        if not self.held:
            self.solo, self._cost = False, 0.0
        elif self._plain >= self._threads:
            self.note_beginnings()
        return held

    def note_beginnings(self) -> None:
        """Threads take orders first in, first out: the first unfinished ones have begun."""
        free = self._threads
        now = clock.monotonic()
        for held in self.held.values():
            if held.is_async:
                held.began = held.began or now
            elif free > 0:
                free -= 1
                held.began = held.began or now
            else:
                break

    def begun(self) -> list[Held]:
        return [held for held in self.held.values() if held.began is not None]

    def waiting(self) -> list[Held]:
        return [held for held in self.held.values() if held.began is None]

    def room(self, pace: Pace) -> int:
        """How many runs of unknown kind it could take now."""
        if self.retiring or self.solo or self.isolated:
            return 0
        return max(0, self._threads - self._plain) + pace.ahead(self._cost)

    def accepts(self, claim: Claim, pace: Pace) -> bool:
        if self.retiring or self.solo:
            return False
        if claim.suspect:
            return not self.held
        if self.isolated:
            return False
        job = registry.find(claim.job)
        if job is not None and job.is_async:
            return self._async < self._async_slots
        return self._plain < self._threads or pace.fits_ahead(claim.job, self._cost)

    def recall_waiting(self) -> None:
        """Ask back what has not begun; the answer says what was still to be had."""
        ids = [run for run, held in self.held.items() if held.began is None and not held.recalled]
        if ids:
            for run in ids:
                self.held[run].recalled = True
            self.send(note("recall", ids))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def memory_mb(self) -> float:
        """Resident memory; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 2**20
        except (OSError, IndexError, ValueError):
            return 0.0


class Pool:
    def __init__(self, nursery: Nursery, *, size: int, threads: int, async_slots: int) -> None:
        self._nursery = nursery
        self._size = size
        self._threads = threads
        self._async_slots = async_slots
        self.children: dict[socket.socket, ChildHandle] = {}

    def fill(self) -> None:
        """Make up for children that are gone."""
        while sum(not child.isolated for child in self) < self._size:
            self._spawn(isolated=False)

    def isolate(self) -> list[ChildHandle]:
        """A child beside the others, for a suspect that would wait for ever for an idle one."""
        if any(child.isolated for child in self):
            return []
        return [self._spawn(isolated=True)]

    def _spawn(self, *, isolated: bool) -> ChildHandle:
        pid, sock = self._nursery.spawn()
        child = ChildHandle(pid, sock, self._threads, self._async_slots, isolated=isolated)
        self.children[sock] = child
        return child

    def __iter__(self) -> Iterator[ChildHandle]:
        return iter(self.children.values())

    def remove(self, child: ChildHandle) -> str:
        """Forget a child that is gone; says how it ended, in words."""
        del self.children[child.sock]
        child.sock.close()
        status = self._nursery.status_of(child.pid)
        if status is None:
            return "its process is gone"
        if status < 0:
            return f"its process was killed by {signal.Signals(-status).name}"
        return f"its process exited with status {status}"

    def held_count(self) -> int:
        return sum(len(child.held) for child in self)
