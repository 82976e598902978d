"""Dead letters: slots that could not be dispatched and Runs that failed, until somebody acts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterable, Sequence

from sync_scheduler import clock
from sync_scheduler.lifecycle import Reason
from sync_scheduler.models import DeadLetter
from sync_scheduler.store import schedules, slots
from sync_scheduler.store.locking import database_now, short_transaction
from sync_scheduler.store.moves import Admitted, Move
from sync_scheduler.store.schedules import DueSchedule


def bury_slots(letters: Sequence[tuple[Move, str]], epoch: int) -> Admitted:
    """Pass over the slots of these moves and keep each with its error here, all or none."""
    errors = {move.schedule_id: (move, error) for move, error in letters}
    with short_transaction():
        admitted = slots.admit([move for move, _ in letters], epoch)
        DeadLetter.objects.bulk_create(
            _letter(*errors[born.schedule_id], run_id=born.id) for born in admitted.born
        )
    return admitted


def bury_without_run(move: Move, error: str, epoch: int) -> bool:
    """The same for a slot whose Run cannot be stored, not even as a failed one: only the letter."""
    with short_transaction():
        # Without the input too: it may be what cannot be stored.
        bare = dataclasses.replace(move, slots=(), input={})
        if not slots.admit([bare], epoch).moved:
            return False
        _letter(move, error).save()
    return True


def bury_schedule(due: DueSchedule, error: str, epoch: int) -> bool:
    """Stop a schedule whose rule cannot be read, and keep that here."""
    with short_transaction():
        if not schedules.give_up(due, error=error, epoch=epoch):
            return False
        _slot_letter(due.id, due.name, due.job, due.next_run_at, error).save()
    return True


def _letter(move: Move, error: str, run_id: uuid.UUID | None = None) -> DeadLetter:
    slot = move.seen_next_run_at
    return _slot_letter(move.schedule_id, move.name, move.job, slot, error, run_id)


def _slot_letter(
    schedule_id: int,
    name: str,
    job: str,
    slot: dt.datetime,
    error: str,
    run_id: uuid.UUID | None = None,
) -> DeadLetter:
    return DeadLetter(
        kind=DeadLetter.Kind.SLOT,
        run_id=run_id,
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
    """Close the open letters of a Run that is being retried, or of the slot that it stands for."""
    open_ids = DeadLetter.objects.filter(
        run_id=run_id, resolution=DeadLetter.Resolution.OPEN
    ).values_list("id", flat=True)
    return resolve(list(open_ids), DeadLetter.Resolution.RETRIED, by=by)
