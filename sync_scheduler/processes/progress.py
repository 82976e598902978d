"""Whether a loop gets on with its work: alive but hung is not leading."""

from __future__ import annotations

from sync_scheduler import clock


class Progress:
    """A loop says when it begins a piece of work and when it rests; resting is no fault."""

    def __init__(self, name: str, patience_seconds: float) -> None:
        self.name = name
        self._patience = patience_seconds
        self._busy_since: float | None = None

    def work(self) -> None:
        """A piece of work begins, or the one under way has got further."""
        self._busy_since = clock.monotonic()

    def rest(self) -> None:
        self._busy_since = None

    @property
    def fault(self) -> str:
        """What is wrong, or nothing."""
        since = self._busy_since
        if since is None or clock.monotonic() - since <= self._patience:
            return ""
        return f"its {self.name} makes no progress"
