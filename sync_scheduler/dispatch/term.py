"""Term: the authority of one leadership, and how long it may be believed."""

from __future__ import annotations

from sync_scheduler import clock
from sync_scheduler.errors import LeadershipLost


class Term:
    """Extended by the thread that renews it, asked by those who act on it."""

    def __init__(self, *, epoch: int, holder: str, trusted_until: float) -> None:
        self.epoch = epoch
        self.holder = holder
        # On the clock that goes on while the machine sleeps.
        self._trusted_until = trusted_until

    @property
    def is_trusted(self) -> bool:
        return clock.boot_seconds() < self._trusted_until

    def require_trust(self) -> None:
        if not self.is_trusted:
            raise LeadershipLost(f"Term {self.epoch} of {self.holder} is over.")

    def extend(self, trusted_until: float) -> None:
        self._trusted_until = trusted_until

    def end(self) -> None:
        self._trusted_until = float("-inf")
