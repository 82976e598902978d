"""All Runs that were ever seen, and what may have become of them between two looks."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from typing import NamedTuple

from django.db.models import Q

from sync_scheduler import conf, lifecycle
from sync_scheduler.models import Run


class Row(NamedTuple):
    id: uuid.UUID
    job: str
    schedule_id: int | None
    schedule_name: str
    slot: dt.datetime | None
    trigger: str
    status: str
    token: int
    attempt: int
    crashes: int
    suspect: bool
    max_attempts: int
    guard: int | None
    gate: str | None
    waiting_for: str | None
    dedupe: uuid.UUID | None
    epoch: int | None
    run_at: dt.datetime
    finished_at: dt.datetime | None
    node: str
    reason: str

    @property
    def is_active(self) -> bool:
        return self.status in lifecycle.ACTIVE

    @property
    def holds_a_place(self) -> bool:
        """Whether it counts when a slot comes due; a backfill that only waits does not."""
        return self.status == "running" or (
            self.status == "submitted" and self.trigger != lifecycle.Trigger.BACKFILL
        )


class Ledger:
    """`rows` is what the last look found, in the order of birth."""

    def __init__(self) -> None:
        self.rows: dict[uuid.UUID, Row] = {}
        self._slots: dict[tuple[int, dt.datetime], uuid.UUID] = {}
        self._newest_epoch = 0

    def look(self, *, pruned_before: dt.datetime | None = None, is_full: bool = False) -> list[Row]:
        """Read the Runs again and hold them against what was; returns the new ones.

        Skipped ones, of which an outage leaves many, are read again only by a full look.
        """
        is_full = is_full or pruned_before is not None
        query = Run.objects.order_by("id")
        found: dict[uuid.UUID, Row] = {}
        if not is_full and self.rows:
            query = query.filter(~Q(status="skipped") | Q(id__gt=max(self.rows)))
            found = {run_id: row for run_id, row in self.rows.items() if row.status == "skipped"}
        found |= {row.id: row for row in map(Row._make, query.values_list(*Row._fields))}
        for run_id in self.rows.keys() - found.keys():
            self._check_gone(self.rows[run_id], pruned_before)
        born = [row for run_id, row in found.items() if run_id not in self.rows]
        for row in born:
            self._check_birth(row)
        for run_id, row in found.items():
            if run_id in self.rows:
                _check_change(self.rows[run_id], row)
            _check_counters(row)
        _check_concurrency(found)
        self.rows = found
        return born

    def active_of(self, schedule_id: int) -> int:
        return sum(r.schedule_id == schedule_id and r.holds_a_place for r in self.rows.values())

    def _check_gone(self, row: Row, pruned_before: dt.datetime | None) -> None:
        assert pruned_before is not None, f"{row} vanished"
        assert row.finished_at is not None and row.finished_at <= pruned_before, (
            f"{row} was pruned before its time"
        )

    def _check_birth(self, row: Row) -> None:
        if row.trigger != lifecycle.Trigger.SLOT:
            return
        assert row.slot is not None and row.schedule_id is not None
        key = (row.schedule_id, row.slot)
        assert key not in self._slots, f"{row.schedule_name} {row.slot}: a second Run"
        self._slots[key] = row.id
        if row.epoch is not None:
            assert row.epoch >= self._newest_epoch, f"{row}: written under an old epoch"
            self._newest_epoch = row.epoch


def _check_change(before: Row, after: Row) -> None:
    if before.status == after.status:
        if before.status in lifecycle.TERMINAL:
            # A removed schedule leaves its Runs behind without it, and a handler that was
            # cancelled ends some day; nothing else changes.
            waits = before.waiting_for if after.waiting_for else None
            assert before._replace(schedule_id=None, waiting_for=waits) == after._replace(
                schedule_id=None
            ), f"{before} had ended and became {after}"
    else:
        assert lifecycle.may_follow(before.status, after.status), f"{before} became {after}"
    claimed = before.status == "submitted" and after.status == "running"
    assert after.token == before.token + claimed, f"{before} became {after}"
    assert after.crashes >= before.crashes


def _check_counters(row: Row) -> None:
    limit = conf.get().CRASH_LIMIT
    assert 0 <= row.attempt - row.crashes <= row.max_attempts, f"{row}: too many attempts"
    assert row.crashes <= limit, f"{row}: too many crashes"
    assert row.crashes < limit or row.status == "failed", f"{row}: lives on after its crashes"
    if row.status != "submitted":
        is_lingering = row.status == "cancelled" and row.waiting_for == "handler"
        assert row.waiting_for is None or is_lingering, f"{row} waits though it does not"


def _check_concurrency(found: dict[uuid.UUID, Row]) -> None:
    # A handler that was cancelled is at work until it says that it has ended.
    running = [r for r in found.values() if r.status == "running" or r.waiting_for == "handler"]
    guards = Counter(row.guard for row in running if row.guard is not None)
    assert all(n == 1 for n in guards.values()), f"runs overlap: {guards}"
    gates = Counter(row.gate for row in running if row.gate is not None)
    assert all(n <= 2 for n in gates.values()), f"too many passed a gate: {gates}"
    keys = Counter(row.dedupe for row in found.values() if row.dedupe is not None)
    assert all(n == 1 for n in keys.values()), "a key has two Runs"
