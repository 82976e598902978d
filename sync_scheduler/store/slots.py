"""How a due slot becomes a Run: the schedule moves on and the Run is born, or neither.

A `Move` says what was decided and names everything that the decision was derived from: the next
run, the watermark and the version of the schedule as they were seen. The write happens only if
all of them still hold, the schedule is enabled and the term's epoch is the current one. A slot
that has its Run already is no error: the schedule moves on.

PostgreSQL does all of it in one statement, so that a leader which is stopped at any moment holds
no lock. Elsewhere it is one short transaction with the same meaning.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from functools import cache
from typing import Any

from sync_scheduler import conf
from sync_scheduler.jobs import payload
from sync_scheduler.lifecycle import State
from sync_scheduler.models.identity import fingerprint, uuid7
from sync_scheduler.store import portable_slots
from sync_scheduler.store.locking import connection, repeat_on_deadlock, speaks_arrays
from sync_scheduler.store.moves import Admitted, Born, Move, slot_key


def admit(moves: Sequence[Move], epoch: int) -> Admitted:
    """Write what was decided, as far as it still holds."""
    if not moves:
        return Admitted(moved=frozenset(), born=())
    if speaks_arrays():
        return repeat_on_deadlock(lambda: _admit_in_one(moves, epoch))
    return repeat_on_deadlock(lambda: portable_slots.admit(moves, epoch))


def _admit_in_one(moves: Sequence[Move], epoch: int) -> Admitted:
    with connection().cursor() as cursor:
        cursor.execute(_statement(), _arguments(moves, epoch))
        rows = cursor.fetchall()
    return Admitted(
        moved=frozenset(row[0] for row in rows),
        born=tuple(Born(*row) for row in rows if row[1] is not None),
    )


@cache
def _statement() -> str:
    folder = importlib.resources.files("sync_scheduler.store") / "sql"
    return (folder / "dispatch_slots.sql").read_text(encoding="utf-8")


def _arguments(moves: Sequence[Move], epoch: int) -> dict[str, Any]:
    namespace = conf.get().NAMESPACE
    flat: list[tuple[Any, ...]] = []
    for move in moves:
        ordinal = 0
        for slot in move.slots:
            ordinal += slot.status is State.SUBMITTED
            key = slot_key(move.name, slot.slot)
            flat.append(
                (
                    uuid7(),
                    move.schedule_id,
                    slot.slot,
                    key,
                    fingerprint(namespace, key),
                    slot.run_at,
                    slot.status.value,
                    slot.reason,
                    slot.error,
                    payload.dump(dict(slot.meta)) if slot.meta else "{}",
                    ordinal if slot.status is State.SUBMITTED else None,
                )
            )
    columns = [list(column) for column in zip(*flat, strict=True)] or [[] for _ in _SLOT_NAMES]
    return {
        "namespace": namespace,
        "epoch": epoch,
        "id": [m.schedule_id for m in moves],
        "seen_next": [m.seen_next_run_at for m in moves],
        "seen_last": [m.seen_last_slot for m in moves],
        "seen_version": [m.seen_version for m in moves],
        "next": [m.next_run_at for m in moves],
        "last": [m.last_slot for m in moves],
        "job": [m.job for m in moves],
        "queue": [m.queue for m in moves],
        "priority": [m.priority for m in moves],
        "max_attempts": [m.max_attempts for m in moves],
        "timeout": [m.timeout_seconds for m in moves],
        "lease": [m.lease_seconds for m in moves],
        "gate": [m.gate for m in moves],
        "capacity": [m.capacity for m in moves],
        "overflow": [m.overflow for m in moves],
        "guarded": [m.capacity is not None for m in moves],
        **dict(zip(_SLOT_NAMES, columns, strict=True)),
    }


_SLOT_NAMES = (
    "slot_id",
    "slot_schedule",
    "slot",
    "slot_key",
    "slot_dedupe",
    "slot_run_at",
    "slot_status",
    "slot_reason",
    "slot_error",
    "slot_meta",
    "slot_ordinal",
)
