"""`slots.admit` for databases that cannot do it in one statement: one short transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import Count

from sync_scheduler import clock, conf, failpoints, lifecycle
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.jobs import payload
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store import leader, portions
from sync_scheduler.store.locking import connection, locked, short_transaction
from sync_scheduler.store.moves import Admitted, Born, Move, Slot, slot_key


def admit(moves: Sequence[Move], epoch: int) -> Admitted:
    # Made before the transaction, in which thousands of them would take longer than a server
    # lets one be silent.
    drafts = {
        move.schedule_id: [_draft(move, slot, epoch) for slot in move.slots] for move in moves
    }
    sizes: dict[int | None, int]
    sizes = {move.schedule_id: len(payload.dump(move.input)) for move in moves}
    try:
        with short_transaction():
            moved = [move for move in _held(moves) if _move(move)]
            # A plain read after the writes: it locks nothing that a successor needs.
            if not leader.is_current(epoch):
                raise LeadershipLost
            runs = _without_existing(_settled(moved, drafts))
            portions.create(Run.objects.all(), runs, [sizes[run.schedule_id] for run in runs])
            failpoints.hit("after_cas_before_commit")
    except LeadershipLost:
        return Admitted(moved=frozenset(), born=())
    return Admitted(
        moved=frozenset(move.schedule_id for move in moved),
        born=tuple(_born(run) for run in runs),
    )


def _held(moves: Sequence[Move]) -> list[Move]:
    """The moves whose rows nobody else holds, locked, in the order of their ids."""
    ordered = sorted(moves, key=lambda move: move.schedule_id)
    if not connection().features.has_select_for_update:
        # SQLite: the first write locks everything. A read before it would only make it likelier
        # that another writer comes between.
        return ordered
    ids = [move.schedule_id for move in ordered]
    rows = locked(Schedule.objects.filter(id__in=ids).order_by("id"))
    free = set(rows.values_list("id", flat=True))
    return [move for move in ordered if move.schedule_id in free]


def _move(move: Move) -> bool:
    return bool(
        Schedule.objects.filter(
            id=move.schedule_id,
            enabled=True,
            version=move.seen_version,
            next_run_at=move.seen_next_run_at,
            **(
                {"last_slot__isnull": True}
                if move.seen_last_slot is None
                else {"last_slot": move.seen_last_slot}
            ),
        ).update(
            next_run_at=move.next_run_at,
            last_slot=move.last_slot,
            failures=0,
            retry_dispatch_at=None,
            error="",
        )
    )


def _settled(moves: Sequence[Move], drafts: Mapping[int, Sequence[Run]]) -> list[Run]:
    """The Runs of these moves; where there is no room for one it is skipped."""
    active = _active([move.schedule_id for move in moves if move.capacity is not None])
    runs = []
    for move in moves:
        room = None if move.capacity is None else move.capacity - active.get(move.schedule_id, 0)
        for run in drafts[move.schedule_id]:
            if run.status == State.SUBMITTED and room is not None:
                if room <= 0:
                    run.status, run.reason = State.SKIPPED, move.overflow
                    run.finished_at = run.submitted_at
                room -= 0 if move.catches_up else 1
            runs.append(run)
    return runs


def _active(ids: Sequence[int]) -> dict[int, int]:
    # Backfills that only wait must not make regular slots look like overlaps.
    counts = (
        Run.objects.filter(schedule_id__in=ids, status__in=lifecycle.ACTIVE)
        .exclude(status=State.SUBMITTED, trigger=Trigger.BACKFILL)
        .order_by()
        .values_list("schedule_id")
        .annotate(n=Count("id"))
    )
    return dict(counts)


def _draft(move: Move, slot: Slot, epoch: int) -> Run:
    namespace, now = conf.get().NAMESPACE, clock.now()
    key = slot_key(move.name, slot.slot)
    return Run(
        namespace=namespace,
        job=move.job,
        queue=move.queue,
        priority=move.priority,
        input=move.input,
        key=key,
        dedupe=fingerprint(namespace, key),
        schedule_id=move.schedule_id,
        schedule_name=move.name,
        slot=slot.slot,
        trigger=Trigger.SLOT,
        status=slot.status,
        max_attempts=move.max_attempts,
        run_at=slot.run_at,
        submitted_at=now,
        finished_at=None if slot.status is State.SUBMITTED else now,
        error=slot.error,
        reason=slot.reason,
        meta=dict(slot.meta),
        timeout_seconds=move.timeout_seconds,
        lease_seconds=move.lease_seconds,
        guard=move.guard,
        gate=move.gate,
        epoch=epoch,
    )


def _without_existing(runs: list[Run]) -> list[Run]:
    """A slot that has its Run already is done; MySQL's INSERT IGNORE would hide more than that."""
    keys = [run.dedupe for run in runs]
    existing = set(Run.objects.filter(dedupe__in=keys).values_list("dedupe", flat=True))
    return [run for run in runs if run.dedupe not in existing]


def _born(run: Run) -> Born:
    assert run.schedule_id is not None and run.slot is not None  # noqa: S101
    return Born(
        run.schedule_id,
        run.id,
        run.slot,
        run.status,
        run.reason,
        run.queue,
        run.priority,
        run.run_at,
    )
