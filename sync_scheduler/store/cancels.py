"""How a Run is cancelled: at once, if it has not ended. A completion that races it loses.

Its place is another matter: while its handler is at work nobody else may have it.
"""

from __future__ import annotations

import dataclasses
import uuid

from sync_scheduler import lifecycle
from sync_scheduler.jobs import payload
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Event, Run
from sync_scheduler.store import waiting
from sync_scheduler.store.locking import (
    alias,
    connection,
    database_now,
    releasing_transaction,
    repeat_on_deadlock,
)

_TEXT_LIMIT, _REASON_BYTES = 500, 2000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """`was_running`: its handler must be told to stop. `promoted` may start in its place."""

    cancelled: bool
    was_running: bool = False
    promoted: tuple[waiting.ReadyRow, ...] = ()


def cancel(run_id: uuid.UUID, *, reason: str, by: str) -> Cancelled:
    reason, by = payload.clean_text(reason, _REASON_BYTES), payload.clean_text(by, _REASON_BYTES)
    return repeat_on_deadlock(lambda: _cancel(run_id, reason, by))


def _cancel(run_id: uuid.UUID, reason: str, by: str) -> Cancelled:
    with releasing_transaction():
        query = Run.objects.filter(id=run_id)
        if connection().features.has_select_for_update:
            query = query.select_for_update()
        run = query.first()
        if run is None or run.status not in lifecycle.ACTIVE:
            return Cancelled(cancelled=False)
        now = database_now()
        was_running = run.status == State.RUNNING
        has_place = run.guard is not None or run.gate is not None
        Run.objects.filter(id=run_id, status=run.status, token=run.token).update(
            status=State.CANCELLED,
            finished_at=now,
            reason=(reason or "cancelled")[:_TEXT_LIMIT],
            waiting_for=waiting.HANDLER if was_running and has_place else None,
        )
        if was_running:
            Attempt.objects.using(alias()).create(
                run_id=run_id,
                number=run.attempt,
                node=run.node,
                started_at=run.started_at or now,
                finished_at=now,
                outcome=Attempt.Outcome.CANCELLED,
                error=reason,
            )
        Event.objects.using(alias()).create(
            run_id=run_id,
            at=now,
            kind="cancelled",
            node=run.node if was_running else "",
            attempt=run.attempt,
            data={"reason": reason, "by": by},
        )
        # It had been let go, and those behind it were to come when it had ended.
        was_next = not was_running and run.waiting_for is None and has_place
        promoted = waiting.promote_after([run]) if was_next else []
        return Cancelled(cancelled=True, was_running=was_running, promoted=tuple(promoted))
