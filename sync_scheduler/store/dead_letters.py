"""Dead letters: slots that could not be dispatched and Runs that failed, until somebody acts."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence

from sync_scheduler import clock
from sync_scheduler.lifecycle import Reason
from sync_scheduler.models import DeadLetter
from sync_scheduler.store import slots
from sync_scheduler.store.locking import database_now, short_transaction
from sync_scheduler.store.moves import Admitted, Move


def bury_slots(letters: Sequence[tuple[Move, str]], epoch: int) -> Admitted:
    """Pass over the slots of these moves and keep each with its error here, all or none."""
    errors = {move.schedule_id: (move, error) for move, error in letters}
    with short_transaction():
        admitted = slots.admit([move for move, _ in letters], epoch)
        dead = []
        for born in admitted.born:
            move, error = errors[born.schedule_id]
            dead.append(
                DeadLetter(
                    kind=DeadLetter.Kind.SLOT,
                    run_id=born.id,
                    schedule_id=move.schedule_id,
                    schedule_name=move.name,
                    job=move.job,
                    slot=born.slot,
                    reason=Reason.DISPATCH_FAILED.value,
                    error=error,
                    created_at=clock.now(),
                )
            )
        DeadLetter.objects.bulk_create(dead)
    return admitted


def bury_schedule(*, schedule_id: int, name: str, job: str, slot: dt.datetime, error: str) -> None:
    """Keep that a schedule stopped because its rule cannot be read."""
    DeadLetter.objects.create(
        kind=DeadLetter.Kind.SLOT,
        schedule_id=schedule_id,
        schedule_name=name,
        job=job,
        slot=slot,
        reason=Reason.DISPATCH_FAILED.value,
        error=error,
        created_at=clock.now(),
    )


def resolve(ids: Iterable[int], resolution: str, *, by: str = "", note: str = "") -> int:
    """Close open letters; those that somebody else has closed stay as they are."""
    return DeadLetter.objects.filter(
        id__in=list(ids), resolution=DeadLetter.Resolution.OPEN
    ).update(resolution=resolution, resolved_at=database_now(), resolved_by=by, note=note[:500])


def answer(run_id: uuid.UUID, *, by: str = "") -> int:
    """Close the open letters of a Run that is being retried."""
    open_ids = DeadLetter.objects.filter(
        run_id=run_id, kind=DeadLetter.Kind.RUN, resolution=DeadLetter.Resolution.OPEN
    ).values_list("id", flat=True)
    return resolve(list(open_ids), DeadLetter.Resolution.RETRIED, by=by)
