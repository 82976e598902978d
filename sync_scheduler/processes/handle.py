"""A parent's view of one child: what it holds, what it has begun, and what it may have besides."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
from collections.abc import Iterable
from pathlib import Path

from sync_scheduler import clock
from sync_scheduler.jobs import registry
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pipe import Pipe
from sync_scheduler.processes.slate import Slate
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
    # Plain orders are numbered as they are sent, which is the order in which they are taken.
    number: int = 0
    # Its handler had ended when the child died, and how was not heard any more.
    is_unheard: bool = False


class ChildHandle:
    """The parent's view of one child."""

    def __init__(
        self,
        pid: int,
        control: socket.socket,
        orders: socket.socket,
        slate: Slate,
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
        self.slate = slate
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
        self._sent = 0
        self._taken = 0

    def reserve(self, claim: Claim, pace: Pace) -> Held:
        """Count a claim as held; it is sent with the next `deliver`."""
        asynchronous = is_async(claim)
        held = Held(claim, claim.id.hex, asynchronous, pace.usual(claim.job))
        self.held[held.run] = held
        if claim.suspect:
            self.solo = True
        if asynchronous:
            self._async += 1
        else:
            self._plain += 1
            self._cost += held.cost
            self._sent += 1
            held.number = self._sent
        if asynchronous or self._plain <= self._threads:
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

    def finish(self, run: str, token: int) -> Held | None:
        """The handler of this attempt has ended. A report may come twice; the second is no news."""
        held = self.held.get(run)
        if held is None or held.claim.token != token:
            return None
        held = self.take_back(run)
        if held is not None:
            self.done_count += 1
            self._taken = max(self._taken, held.number)
        return held

    def take_back(self, run: str) -> Held | None:
        """It is not this child's any more."""
        held = self.held.pop(run, None)
        if held is None:
            return None
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

    def read_slate(self) -> None:
        """After its death: put what it had really begun in the place of what we supposed."""
        in_hand, last = self.slate.in_hand(), self.held.get(self.slate.last_taken())
        taken = max(self._taken, 0 if last is None else last.number)
        now = clock.monotonic()
        for held in self.held.values():
            if not held.is_async:
                held.began = (held.began or now) if held.number <= taken else None
                held.is_unheard = held.began is not None and held.run not in in_hand

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
        if is_async(claim):
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


def is_async(claim: Claim) -> bool:
    job = registry.find(claim.job)
    return job is not None and job.is_async
