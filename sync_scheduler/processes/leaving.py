"""How a worker leaves once it was told to stop: what it still waits for, and for how long."""

from __future__ import annotations

import threading

from sync_scheduler import clock, conf
from sync_scheduler.processes.ledger import Ledger

# After the grace time: so long killed children may take to be gone, and a database that refuses
# outcomes to change its mind.
_LAST_SECONDS = 1.0


class Leaving:
    def __init__(self) -> None:
        self._grace = conf.get().SHUTDOWN_GRACE
        self._lease = conf.get().NODE_LEASE
        self._begun = threading.Event()
        self._at_once = threading.Event()
        self._stop_at = 0.0
        self._over_at: float | None = None

    def begin(self, *, at_once: bool) -> None:
        """May be called by a signal's handler, and again."""
        if at_once:
            self._at_once.set()
        self._stop_at = self._stop_at or clock.monotonic() + self._grace
        self._begun.set()

    @property
    def is_begun(self) -> bool:
        return self._begun.is_set()

    @property
    def is_over(self) -> bool:
        """Whether the grace time has been found to be over: children die because we kill them."""
        return self._over_at is not None

    def look(self) -> bool:
        """Whether the grace time is over. Only what comes after this look counts as waiting."""
        now = clock.monotonic()
        if self._over_at is None and (self._at_once.is_set() or now > self._stop_at):
            self._over_at = now
        return self.is_over

    def is_hopeless(self, ledger: Ledger) -> bool:
        """Whether nothing more can come of waiting, though not all is done.

        An outcome that is not recorded is a handler that runs again. So a database that is merely
        slow is waited for as long as the node would have been trusted anyway; the pulse goes on.
        """
        if self._over_at is None:
            return False
        waited = clock.monotonic() - self._over_at
        if ledger.is_empty() or ledger.is_refused:
            return waited > _LAST_SECONDS
        return waited > max(_LAST_SECONDS, self._lease)
