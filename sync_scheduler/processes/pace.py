"""How long jobs take, and so how much work a child may be handed ahead of time.

Look-ahead is bounded by time, not by count: tiny jobs stream, and nothing waits long behind a
job that turns out to be slow.
"""

from __future__ import annotations

_AHEAD_SECONDS = 0.05
_LITTLE_SECONDS = 0.01
_UNKNOWN_SECONDS = 1.0
_WEIGHT = 0.2
_MOST = 500


class Pace:
    def __init__(self) -> None:
        self._usual: dict[str, float] = {}
        self._overall = _UNKNOWN_SECONDS

    def learn(self, job: str, seconds: float) -> None:
        before = self._usual.get(job)
        self._usual[job] = seconds if before is None else before + _WEIGHT * (seconds - before)
        self._overall += _WEIGHT * (seconds - self._overall)

    def usual(self, job: str) -> float:
        return self._usual.get(job, _UNKNOWN_SECONDS)

    def ahead(self, backlog_seconds: float) -> int:
        """How many more runs of average length a child may hold beyond what it executes."""
        room = _AHEAD_SECONDS - backlog_seconds
        if room <= 0:
            return 0
        return min(int(room / max(self._overall, 1e-5)), _MOST)

    def is_little(self, backlog_seconds: float) -> bool:
        """Whether that will be done before more can be had."""
        return backlog_seconds < _LITTLE_SECONDS

    def fits_ahead(self, job: str, backlog_seconds: float) -> bool:
        return backlog_seconds + self.usual(job) <= _AHEAD_SECONDS
