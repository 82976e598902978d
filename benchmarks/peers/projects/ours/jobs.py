"""The two jobs of the comparison."""

from __future__ import annotations

from benchmarks.peers import stamps
from sync_scheduler import job


@job(name="peers.noop")
def noop() -> None:
    stamps.append_once()


@job(name="peers.stamped")
def stamped() -> None:
    stamps.append()
