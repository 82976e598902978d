"""Take work: ids from Redis or from a poll, then one conditional write that makes them ours."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sync_scheduler import clock, failpoints
from sync_scheduler.coordination import announcer
from sync_scheduler.coordination.ready_queue import Ready
from sync_scheduler.intake import ready
from sync_scheduler.intake.gate import gate_of
from sync_scheduler.jobs import registry
from sync_scheduler.store import claims, gates, leftovers, waiting
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.leftovers import Leftover

logger = logging.getLogger(__name__)

# How long an id that this node cannot run stays out of the ready queue before somebody else,
# or we again, get to see it.
_UNKNOWN_PAUSE = dt.timedelta(seconds=1)
# What became due so shortly before we looked was not due yet when we claimed.
_MOMENT = dt.timedelta(milliseconds=100)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What this process can run; fixed once it has started."""

    jobs: frozenset[str]
    # Those of them that have no limit: they are claimed many at a time.
    free: frozenset[str]
    limits: Mapping[str, gates.Limit]


def known() -> Known:
    jobs, free = registry.known_names(), registry.unlimited_names()
    limits = {}
    for name in jobs - free:
        policy = registry.get(name).policy
        limits[name] = gates.Limit(concurrency=policy.concurrency, rate=policy.rate_limit)
    return Known(jobs=jobs, free=free, limits=limits)


def release_unlimited() -> None:
    """Let go what an earlier version of the code has parked behind a limit that is gone."""
    ready.announce(waiting.release_unlimited(registry.unlimited_names()))


def claim_ids(ids: Sequence[uuid.UUID], node: str, what: Known) -> list[Claim]:
    """Claim these Runs as far as possible; what is left is parked, put off or put back.

    Whatever goes wrong with those: what was claimed before is the caller's, or nobody would ever
    execute it.
    """
    taken = claims.claim(ids, node, what.free)
    if taken:
        failpoints.hit("after_claim_before_start")
    if len(taken) == len(ids):
        return taken
    have = {one.id for one in taken}
    try:
        taken += _handle_rest([one for one in ids if one not in have], node, what)
    except Exception:
        if not taken:
            raise
        logger.exception(
            "%d runs could not be looked after",
            len(ids) - len(have),
            extra={"event": "rest_failed"},
        )
    return taken


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
    gated = [row for row in rest if row.job in what.limits]
    if gated:
        _assign_gates([row for row in gated if row.gate is None])
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
    _put_back(
        [
            Ready(id=row.id.hex, queue=row.queue, priority=row.priority, run_at=start)
            for row in rest
            if (start := _start_here(row, what)) is not None
        ]
    )
    return taken


def _start_here(row: Leftover, what: Known) -> dt.datetime | None:
    """When, by the clock of this machine, it is worth asking again; None: it need not come back.

    Redis hands ids out by the clocks of nodes, and whoever submitted may have had a third one; a
    Run is due when the database says so.
    """
    now = clock.now()
    if row.job not in what.jobs:
        return max(row.run_at, now + _UNKNOWN_PAUSE)
    # A gate looks again after us.
    not_due_since = row.seen_at if row.job in what.limits else row.seen_at - _MOMENT
    return row.run_at + (now - row.seen_at) if row.run_at > not_due_since else None


def _assign_gates(rows: Sequence[Leftover]) -> None:
    """They were submitted when their job had no limit; it has one now."""
    if not rows:
        return
    stored = leftovers.inputs([row.id for row in rows])
    gates.assign({row.id: _gate_of(row, stored[row.id]) for row in rows if row.id in stored})


def _gate_of(row: Leftover, stored: dict[str, Any]) -> str:
    job = registry.get(row.job)
    try:
        return gate_of(job, stored) or job.name
    except Exception:  # somebody's function, or an input that cannot be read any more
        logger.exception(
            "the concurrency_key of %s cannot be found for Run %s; it counts with all others"
            " of which that is true",
            row.job,
            row.id,
            extra={"event": "gate_failed"},
        )
        return job.name


def _put_back(entries: list[Ready]) -> None:
    if entries:
        announcer.announce_if_redis(entries)
