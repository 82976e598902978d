"""The children of a worker's parent: what each of them holds, and what it has just begun."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from sync_scheduler import clock
from sync_scheduler.jobs import registry
from sync_scheduler.processes.nursery import Nursery
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pipe import Pipe
from sync_scheduler.store.claims import Claim
from sync_scheduler.work.wire import Message, Order, Reader, note

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(slots=True)
class Held:
    """A claim that a child holds. `began` is when it must have begun, None while it waits."""

    claim: Claim
    run: str
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
        control: socket.socket,
        orders: socket.socket,
        threads: int,
        async_slots: int,
        *,
        isolated: bool = False,
    ) -> None:
        self.pid = pid
        # Only for suspects, one at a time, while every other child is busy.
        self.isolated = isolated
        self.control = Pipe(control)
        self.orders = Pipe(orders)
        self.reader = Reader()
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

    def reserve(self, claim: Claim, pace: Pace) -> Held:
        """Count a claim as held; it is sent with the next `deliver`."""
        is_async = _is_async(claim)
        held = Held(claim, claim.id.hex, is_async, pace.usual(claim.job))
        self.held[held.run] = held
        if claim.suspect:
            self.solo = True
        if is_async:
            self._async += 1
        else:
            self._plain += 1
            self._cost += held.cost
        if is_async or self._plain <= self._threads:
            held.began = clock.monotonic()
        return held

    def deliver(self, share: Iterable[Held], node: str) -> None:
        """Send reserved claims, together."""
        plain: list[Message] = []
        others: list[Message] = []
        for held in share:
            claim = held.claim
            slot = None if claim.slot is None else claim.slot.isoformat()
            order = Order(
                held.run, claim.job, claim.input, claim.attempt, claim.token, claim.trigger,
                slot, claim.depth, node,
            )  # fmt: skip
            (others if held.is_async else plain).append(order.message)
        if plain:
            self.orders.send(plain)
        if others:
            self.control.send(others)

    def send(self, message: Message) -> None:
        self.control.send([message])

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

    def is_hungry(self, pace: Pace) -> bool:
        """Whether it will soon have nothing to do."""
        if self.retiring or self.solo or self.isolated:
            return False
        return self._plain < self._threads or pace.is_little(self._cost)

    def accepts(self, claim: Claim, pace: Pace) -> bool:
        if self.retiring or self.solo:
            return False
        if claim.suspect:
            return not self.held
        if self.isolated:
            return False
        if _is_async(claim):
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


def _is_async(claim: Claim) -> bool:
    job = registry.find(claim.job)
    return job is not None and job.is_async


class Pool:
    is_async = staticmethod(_is_async)

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

    def hand_out(self, pending: deque[Claim], pace: Pace, node: str) -> list[Claim]:
        """Give claims to children as far as they may have them; the others stay where they are."""
        shares: dict[ChildHandle, list[Held]] = {}
        for _ in range(len(pending)):
            claim = pending.popleft()
            child = self._taker(claim, pace)
            if child is None:
                pending.append(claim)
            else:
                # Held at once, so that the next question counts it; sent in one go below.
                shares.setdefault(child, []).append(child.reserve(claim, pace))
        for child, share in shares.items():
            child.deliver(share, node)
        return [held.claim for share in shares.values() for held in share]

    def _taker(self, claim: Claim, pace: Pace) -> ChildHandle | None:
        """Who may take this claim and has least to do; None: nobody may now."""
        best: ChildHandle | None = None
        for child in self.children.values():
            if child.accepts(claim, pace) and (best is None or len(child.held) < len(best.held)):
                best = child
        if best is None and claim.suspect:
            best = next(iter(self.isolate()), None)
        return best

    def pipes(self) -> Iterator[Pipe]:
        for child in self:
            yield child.control
            yield child.orders

    def isolate(self) -> list[ChildHandle]:
        """A child beside the others, for a suspect that would wait for ever for an idle one."""
        if any(child.isolated for child in self):
            return []
        return [self._spawn(isolated=True)]

    def _spawn(self, *, isolated: bool) -> ChildHandle:
        pid, control, orders = self._nursery.spawn()
        child = ChildHandle(
            pid, control, orders, self._threads, self._async_slots, isolated=isolated
        )
        self.children[control] = child
        return child

    def __iter__(self) -> Iterator[ChildHandle]:
        return iter(self.children.values())

    def remove(self, child: ChildHandle) -> str:
        """Forget a child that is gone; says how it ended, in words."""
        del self.children[child.control.sock]
        child.control.sock.close()
        child.orders.sock.close()
        status = self._nursery.status_of(child.pid)
        if status is None:
            return "its process is gone"
        if status < 0:
            return f"its process was killed by {signal.Signals(-status).name}"
        return f"its process exited with status {status}"

    def close(self) -> None:
        """Let go of all children; they end when they notice."""
        for pipe in self.pipes():
            pipe.sock.close()
        self.children.clear()

    def held_count(self) -> int:
        return sum(len(child.held) for child in self)
