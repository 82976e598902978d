"""What was committed and slipped: ids that never reached Redis, Runs that wait for nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt

from sync_scheduler import conf
from sync_scheduler.coordination import client, ready_queue
from sync_scheduler.intake.ready import announce
from sync_scheduler.jobs import registry
from sync_scheduler.store import upkeep, waiting
from sync_scheduler.store.waiting import ReadyRow

# An id that was pushed the ordinary way has been taken or is about to be by then.
GRACE = dt.timedelta(seconds=2)
# A queue that holds this many ids keeps its workers busy; more would only fill Redis.
ENOUGH = 5000
_BATCH = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    pushed: int = 0
    released: int = 0


def reconcile(now: dt.datetime, found: upkeep.Findings) -> Reconciled:
    """Put back what `found` says may have slipped. Raises nothing when Redis is away."""
    released: list[ReadyRow] = []
    if found.has_waiting:
        released = waiting.release_unlimited(registry.unlimited_names())
        released += waiting.release_free()
        announce(released)
    pushed = 0
    if found.has_ready and conf.get().uses_redis:
        try:
            pushed = _push(now)
        except client.UNREACHABLE:
            client.report_broken()
    return Reconciled(pushed=pushed, released=len(released))


def _push(now: dt.datetime) -> int:
    """ZADD NX: an id that is there already stays as it is, so repeating this is harmless."""
    pushed = 0
    for queue, size in ready_queue.sizes(upkeep.ready_queues()).items():
        if size >= ENOUGH:
            continue
        # What Redis holds already is among these rows, hence more of them the more it holds.
        rows = upkeep.ready_in(queue, now - GRACE, size + _BATCH)
        ready_queue.push(
            ready_queue.Ready(
                id=row.id.hex, queue=row.queue, priority=row.priority, run_at=row.run_at
            )
            for row in rows
        )
        pushed += len(rows)
    return pushed
