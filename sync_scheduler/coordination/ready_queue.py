"""Ready queues: ids of runs that may start, so that a worker need not ask the database.

Only ids travel. A popped id is a hint: the claim asks the row. An id that is lost here is put
back by the reconciler.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sync_scheduler import clock, conf
from sync_scheduler.coordination import queues
from sync_scheduler.coordination.client import client, keys, script

logger = logging.getLogger(__name__)

ID = re.compile(r"[0-9a-f]{32}\Z")
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
    pipe = client().pipeline(transaction=False)
    for command in commands(entries):
        pipe.execute_command(*command)
    pipe.execute()


def commands(entries: Iterable[Ready]) -> list[tuple[Any, ...]]:
    """What to tell Redis so that it has these ids."""
    names, horizon = keys(), clock.now()
    members: dict[str, list[Any]] = {}
    used: set[str] = set()
    for entry in entries:
        used.add(entry.queue)
        if entry.run_at > horizon:
            later = members.setdefault(names.later(entry.queue), [])
            later += (entry.run_at.timestamp() * 1000, f"{entry.priority}|{entry.id}")
        else:
            ready = members.setdefault(names.ready(entry.queue), [])
            ready += (score(entry.priority, entry.run_at), entry.id)
    told: list[tuple[Any, ...]] = [("ZADD", name, "NX", *pairs) for name, pairs in members.items()]
    if names_to_tell := queues.untold(used):
        told.append(("SADD", names.queues, *names_to_tell))
    return told


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Ids that may start now, whether there may be more, and in how many seconds another is due."""

    ids: list[str]
    is_all: bool
    next_seconds: float | None


def take(queue_names: Sequence[str], count: int, on: Any | None = None) -> Taken:
    """Take up to `count` ids from these queues, in their order, and move what has become due."""
    names = keys()
    call = script("pop_ready", on or client())
    pairs = [name for queue in queue_names for name in (names.ready(queue), names.later(queue))]
    now = clock.now().timestamp()
    text, taken, due = call(keys=pairs, args=[int(now * 1000), count, _SPAN])
    ids = [text[i : i + 32] for i in range(0, len(text), 32)]
    if len(ids) < int(taken):
        _warn_of_strangers(conf.get().NAMESPACE)
    return Taken(
        ids=ids,
        is_all=int(taken) < count,
        next_seconds=max(0.0, float(due) / 1000 - now) if due else None,
    )


@cache
def _warn_of_strangers(namespace: str) -> None:
    """Once: whoever can write junk here can write a lot of it."""
    logger.warning(
        "dropped what is no id of a Run from a ready queue in Redis; something else writes to the"
        " keys of namespace %r",
        namespace,
        extra={"event": "junk_in_redis"},
    )


def pop(queue_names: Sequence[str], count: int, on: Any | None = None) -> list[str]:
    return take(queue_names, count, on).ids


def put_back(queue: str, member: str, score: float) -> None:
    """Return an id that was popped in vain to its place."""
    client().zadd(keys().ready(queue), {member: score}, nx=True)


def sizes(queue_names: Sequence[str]) -> dict[str, int]:
    pipe = client().pipeline(transaction=False)
    for queue in queue_names:
        pipe.zcard(keys().ready(queue))
    return dict(zip(queue_names, pipe.execute(), strict=True))
