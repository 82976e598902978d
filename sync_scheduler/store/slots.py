"""How a due slot becomes a Run: the schedule moves on and the Run is born, or neither.

A `Move` says what was decided and names everything that the decision was derived from: the next
run, the watermark and the version of the schedule as they were seen. The write happens only if
all of them still hold, the schedule is enabled and the term's epoch is the current one. A slot
that has its Run already is no error: the schedule moves on.

PostgreSQL does all of it in one statement, so that a leader which is stopped at any moment holds
no lock. Elsewhere it is one short transaction with the same meaning.
"""

from __future__ import annotations

import datetime as dt
import importlib.resources
import uuid
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from sync_scheduler import conf
from sync_scheduler.jobs import codec, payload
from sync_scheduler.lifecycle import State
from sync_scheduler.models.identity import fingerprint, uuid7_many
from sync_scheduler.store import portable_slots
from sync_scheduler.store.locking import connection, repeat_on_deadlock, speaks_arrays
from sync_scheduler.store.moves import Admitted, Born, Move, Slot, slot_key

Planned = dict[uuid.UUID, tuple[Move, Slot]]


def admit(moves: Sequence[Move], epoch: int) -> Admitted:
    """Write what was decided, as far as it still holds."""
    if not moves:
        return Admitted(moved=frozenset(), born=())
    if speaks_arrays():
        return repeat_on_deadlock(lambda: _admit_in_one(moves, epoch))
    return repeat_on_deadlock(lambda: portable_slots.admit(moves, epoch))


def _admit_in_one(moves: Sequence[Move], epoch: int) -> Admitted:
    # The ids are ours, so that the answer need not repeat what we know.
    pairs = [(move, slot) for move in moves for slot in move.slots]
    planned = dict(zip(uuid7_many(len(pairs)), pairs, strict=True))
    with connection().cursor() as cursor:
        cursor.execute(_statement(), _arguments(moves, planned, epoch))
        rows = cursor.fetchall()
    born = []
    for schedule_id, run_id, status, reason in rows:
        if run_id is not None:
            move, slot = planned[run_id]
            facts = (slot.slot, status, reason, move.queue, move.priority, slot.run_at)
            born.append(Born(schedule_id, run_id, *facts))
    return Admitted(moved=frozenset(row[0] for row in rows), born=tuple(born))


@cache
def _statement() -> str:
    folder = importlib.resources.files("sync_scheduler.store") / "sql"
    return (folder / "dispatch_slots.sql").read_text(encoding="utf-8")


def _arguments(moves: Sequence[Move], planned: Planned, epoch: int) -> dict[str, Any]:
    """The batch as two JSON texts: adapting lists element by element costs several times more."""
    settings = conf.get()
    records = [_move_record(move) for move in moves]
    if settings.PAYLOAD_CODEC is not None:
        # The schedule's own copy may be from before there was a codec.
        for move, record in zip(moves, records, strict=True):
            record["input"] = codec.seal(move.input)
    return {
        "namespace": settings.NAMESPACE,
        "epoch": epoch,
        "moves": payload.dump(records),
        "slots": payload.dump(list(_slot_records(planned))),
    }


def _move_record(move: Move) -> dict[str, Any]:
    """What is None is left out: the statement reads it as NULL, and need not read its name."""
    record = {
        "id": move.schedule_id,
        "seen_next": _text(move.seen_next_run_at),
        "seen_last": _text(move.seen_last_slot),
        "seen_version": move.seen_version,
        "next_slot": _text(move.next_run_at),
        "watermark": _text(move.last_slot),
        "job": move.job,
        "queue": move.queue,
        "priority": move.priority,
        "max_attempts": move.max_attempts,
        "timeout_seconds": move.timeout_seconds,
        "lease_seconds": move.lease_seconds,
        "gate": move.gate,
        "capacity": move.capacity,
        "overflow": move.overflow,
    }
    return {name: value for name, value in record.items() if value is not None}


def _slot_records(planned: Planned) -> Iterator[dict[str, Any]]:
    namespace = conf.get().NAMESPACE
    ordinals: dict[int, int] = {}
    for run_id, (move, slot) in planned.items():
        key = slot_key(move.name, slot.slot)
        record = {
            "id": run_id.hex,
            "schedule_id": move.schedule_id,
            "slot": _text(slot.slot),
            "key": key,
            "dedupe": fingerprint(namespace, key).hex,
            "run_at": _text(slot.run_at),
            "status": slot.status.value,
        }
        if slot.status is State.SUBMITTED:
            before = 0 if move.catches_up else ordinals.get(move.schedule_id, 0)
            record["ordinal"] = ordinals[move.schedule_id] = before + 1
        # Nearly every slot has none of these.
        if slot.reason:
            record["reason"] = slot.reason
        if slot.error:
            record["error"] = slot.error
        if slot.meta:
            record["meta"] = slot.meta
        yield record


@lru_cache(maxsize=4096)
def _text(instant: dt.datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
