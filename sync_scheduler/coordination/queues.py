"""The names of queues that have been used, so that a worker which serves all of them can."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from sync_scheduler import clock
from sync_scheduler.coordination import client

# Told again now and then: Redis may have been wiped.
_REPEAT_SECONDS = 1.0
_told: dict[tuple[int, str], float] = {}


def untold(names: Iterable[str]) -> list[str]:
    """Those of these names that Redis should be told (again) with the next push."""
    now, pid = clock.monotonic(), os.getpid()
    found = [name for name in names if _told.get((pid, name), 0.0) <= now]
    for name in found:
        _told[pid, name] = now + _REPEAT_SECONDS
    return found


def known(on: Any) -> tuple[str, ...]:
    """All queues that have been used, `default` first."""
    names: set[str] = set(on.smembers(client.keys().queues))
    return ("default", *sorted(names - {"default"}))
