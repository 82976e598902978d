"""The children of a worker's parent: who lives, and who gets what."""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from collections.abc import Iterator

from sync_scheduler.processes.handle import ChildHandle, Held, is_async
from sync_scheduler.processes.nursery import Nursery
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pipe import Pipe
from sync_scheduler.processes.slate import Slate
from sync_scheduler.store.claims import Claim


class Pool:
    is_async = staticmethod(is_async)

    def __init__(self, nursery: Nursery, *, size: int, threads: int, async_slots: int) -> None:
        self._nursery = nursery
        self._size = size
        self._threads = threads
        self._async_slots = async_slots
        self.children: dict[socket.socket, ChildHandle] = {}

    def fill(self) -> None:
        """Make up for children that are gone, or about to go."""
        # One that retires takes nothing more, but what it still runs may take hours.
        while sum(not (child.isolated or child.retiring) for child in self) < self._size:
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
        run = claim.id.hex
        for child in self.children.values():
            if run in child.held:
                # Taken from us while we were silent, and ours again: first its handler that is
                # still at work here must end, or it would run beside itself.
                return None
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
        slate, descriptor = Slate.new(self._threads)
        try:
            pid, control, orders = self._nursery.spawn(descriptor)
        finally:
            os.close(descriptor)
        child = ChildHandle(
            pid, control, orders, slate, self._threads, self._async_slots, isolated=isolated
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
        child.read_slate()
        child.slate.close()
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
