"""Take work: ids from Redis or from a poll, then one conditional write that makes them ours."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Collection, Mapping, Sequence

from sync_scheduler import clock, failpoints
from sync_scheduler.coordination import announcer
from sync_scheduler.coordination.ready_queue import Ready
from sync_scheduler.jobs import registry
from sync_scheduler.store import claims, gates, leftovers, waiting
from sync_scheduler.store.claims import Claim

# How long an id that this node cannot run stays out of the ready queue before somebody else,
# or we again, get to see it.
_UNKNOWN_PAUSE = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What this process can run; fixed once it has started."""

    jobs: frozenset[str]
    limits: Mapping[str, gates.Limit]


def known() -> Known:
    limits = {}
    for name in registry.known_names():
        policy = registry.get(name).policy
        if policy.concurrency is not None or policy.rate_limit is not None:
            limits[name] = gates.Limit(concurrency=policy.concurrency, rate=policy.rate_limit)
    return Known(jobs=registry.known_names(), limits=limits)


def claim_ids(ids: Sequence[uuid.UUID], node: str, what: Known) -> list[Claim]:
    """Claim these Runs as far as possible; what is left is parked, put off or put back."""
    taken = claims.claim(ids, node, what.jobs)
    if taken:
        failpoints.hit("after_claim_before_start")
    if len(taken) == len(ids):
        return taken
    have = {one.id for one in taken}
    return taken + _handle_rest([one for one in ids if one not in have], node, what)


def poll(
    queues: Sequence[str], count: int, node: str, what: Known, paused: Collection[str] = ()
) -> list[Claim]:
    """Claim what is ready in the database: the way without Redis, and the guarantee behind it."""
    return claim_ids(claims.pick(queues, what.jobs, count, paused), node, what)


def poll_is_empty(queues: Sequence[str], what: Known, paused: Collection[str] = ()) -> bool:
    """Whether nothing is ready for this process at this moment."""
    return not claims.pick(queues, what.jobs, 1, paused)


def _handle_rest(ids: Sequence[uuid.UUID], node: str, what: Known) -> list[Claim]:
    rest = leftovers.still_ready(ids)
    if not rest:
        return []
    guarded = [row.id for row in rest if row.guard is not None]
    if guarded:
        waiting.park_behind_guard(guarded)
    taken: list[Claim] = []
    gated = [row for row in rest if row.gate is not None]
    if gated:
        passed = gates.claim_through_gates([row.id for row in gated], node, what.limits)
        taken += passed.claims
        starts = dict(passed.delayed)
        _put_back(
            [
                Ready(id=row.id.hex, queue=row.queue, priority=row.priority, run_at=starts[row.id])
                for row in gated
                if row.id in starts
            ]
        )
    now = clock.now()
    _put_back(
        [
            Ready(
                id=row.id.hex,
                queue=row.queue,
                priority=row.priority,
                run_at=max(row.run_at, now + _UNKNOWN_PAUSE),
            )
            for row in rest
            if row.job not in what.jobs or row.run_at > now
        ]
    )
    return taken


def _put_back(entries: list[Ready]) -> None:
    if entries:
        announcer.announce_if_redis(entries)
