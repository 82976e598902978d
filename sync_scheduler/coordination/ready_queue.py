"""Ready queues: ids of runs that may start, so that a worker need not ask the database.

Only ids travel. A popped id is a hint: the claim asks the row. An id that is lost here is put
back by the reconciler.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Any

from sync_scheduler import clock
from sync_scheduler.coordination import queues
from sync_scheduler.coordination.client import client, keys, script

_ID = re.compile(r"[0-9a-f]{32}\Z")
# Scores are doubles: 201 priorities x 2^42 milliseconds stay well inside their 53 exact bits.
_SPAN = 2**42


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A run that may start at `run_at`."""

    id: str
    queue: str
    priority: int
    run_at: dt.datetime


def score(priority: int, run_at: dt.datetime) -> float:
    """Larger priorities first, then earlier times."""
    return (100 - priority) * _SPAN + int(run_at.timestamp() * 1000)


def push(entries: Iterable[Ready]) -> None:
    """Add ids; those that are there already stay where they are. One round trip."""
    names, horizon = keys(), clock.now()
    members: dict[str, dict[str, float]] = {}
    used: set[str] = set()
    for entry in entries:
        used.add(entry.queue)
        if entry.run_at > horizon:
            later = members.setdefault(names.later(entry.queue), {})
            later[f"{entry.priority}|{entry.id}"] = entry.run_at.timestamp() * 1000
        else:
            ready = members.setdefault(names.ready(entry.queue), {})
            ready[entry.id] = score(entry.priority, entry.run_at)
    if not members:
        return
    pipe = client().pipeline(transaction=False)
    for name, scores in members.items():
        pipe.zadd(name, scores, nx=True)
    if names_to_tell := queues.untold(used):
        pipe.sadd(names.queues, *names_to_tell)
    pipe.execute()


def pop(queue_names: Sequence[str], count: int, on: Any | None = None) -> list[str]:
    """Take up to `count` ids from these queues, in their order, and move what has become due."""
    names = keys()
    call = script("pop_ready", on or client())
    pairs = [name for queue in queue_names for name in (names.ready(queue), names.later(queue))]
    now = int(clock.now().timestamp() * 1000)
    found = call(keys=pairs, args=[now, count, _SPAN])
    return [member for member in found if _ID.match(member)]


def wait(queue_names: Sequence[str], seconds: float, on: Any) -> str | None:
    """Block until an id comes, at most `seconds`. `on` is a blocking client."""
    names = keys()
    answer = on.bzpopmin([names.ready(queue) for queue in queue_names], timeout=seconds)
    if answer is None:
        return None
    member: str = answer[1]
    return member if _ID.match(member) else None


def next_later(queue_names: Sequence[str], on: Any | None = None) -> float | None:
    """Seconds until the earliest delayed run is due; None if there is none."""
    names, pipe = keys(), (on or client()).pipeline(transaction=False)
    for queue in queue_names:
        pipe.zrange(names.later(queue), 0, 0, withscores=True)
    firsts = [float(found[0][1]) for found in pipe.execute() if found]
    if not firsts:
        return None
    return max(0.0, min(firsts) / 1000 - clock.now().timestamp())


def sizes(queue_names: Sequence[str]) -> dict[str, int]:
    pipe = client().pipeline(transaction=False)
    for queue in queue_names:
        pipe.zcard(keys().ready(queue))
    return dict(zip(queue_names, pipe.execute(), strict=True))
