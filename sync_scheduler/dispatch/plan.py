"""What is to become of one due schedule: pure, so that it can be tested without a leader."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from sync_scheduler.conf import Settings
from sync_scheduler.intake.runs import row_values
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.store.moves import Move, Slot
from sync_scheduler.store.schedules import DueSchedule
from sync_scheduler.timing import policies, slots
from sync_scheduler.timing.rules import Recurrence

_OVERFLOW = {
    policies.Overlap.SKIP.value: Reason.OVERLAP.value,
    policies.Overlap.QUEUE.value: Reason.QUEUE_FULL.value,
}

# No slot is dispatched before its time, so a watermark this far ahead cannot be true.
_UNBELIEVABLE = dt.timedelta(days=1)

_MICROSECOND = dt.timedelta(microseconds=1)
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)

Explain = Callable[[dt.datetime], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What every decision of one tick has in common.

    `skip_rows` bounds how many missed slots get a row of their own; `explain` says for a missed
    slot who led at that time.
    """

    now: dt.datetime
    settings: Settings
    skip_rows: int = 100
    explain: Explain = lambda slot: {}


def plan(due: DueSchedule, given: Circumstances) -> Move:
    """Decide. Raises whatever is wrong with this one schedule."""
    rule = slots.reaching_back(due.recurrence, due.next_run_at)
    decided = _Slots(due, given)
    pause_ends = _pause_end(due, given.now)
    next_run_at: dt.datetime | None = due.next_run_at
    # A pause that ended before the next run has nothing to pass over; looking for slots behind
    # its end would bring back those of a time when the schedule was off or had another rule.
    if pause_ends is not None and due.next_run_at <= pause_ends:
        next_run_at = decided.pass_over_paused(rule, pause_ends)
    if next_run_at is not None and next_run_at <= given.now:
        next_run_at = decided.dispatch(rule, next_run_at)
    if due.holds_slots_back:
        decided.catch_up_once()
    columns: dict[str, Any] = {"job": due.job}
    if any(slot.status is State.SUBMITTED for slot in decided.found):
        job = registry.get(due.job) if given.settings.STRICT_JOBS else registry.find(due.job)
        if job is None:
            decided.skip_everything(Reason.UNKNOWN_JOB)
        else:
            columns = row_values(job, due.input)
    overlap = policies.normalise_overlap(due.overlap)
    return Move(
        schedule_id=due.id,
        name=due.name,
        seen_next_run_at=due.next_run_at,
        seen_last_slot=due.last_slot,
        seen_version=due.version,
        next_run_at=next_run_at,
        last_slot=decided.watermark,
        slots=tuple(decided.found),
        input=due.input,
        capacity=_capacity(overlap, given.settings),
        # They came due while nothing ran, so that none of them overlaps with another.
        catches_up=policies.normalise_misfire(due.misfire) == policies.Misfire.CATCH_UP_ALL,
        overflow=_OVERFLOW.get(overlap, ""),
        **columns,
    )


def pass_over(due: DueSchedule, error: str, given: Circumstances) -> Move:
    """Give up on the slot that could not be dispatched, and go on with the one after it."""
    rule = due.recurrence
    overlap = policies.normalise_overlap(due.overlap)
    return Move(
        schedule_id=due.id,
        name=due.name,
        seen_next_run_at=due.next_run_at,
        seen_last_slot=due.last_slot,
        seen_version=due.version,
        next_run_at=slots.next_after(rule, due.next_run_at),
        last_slot=_later(due.last_slot, due.next_run_at),
        slots=(
            Slot(
                slot=due.next_run_at,
                run_at=given.now,
                status=State.FAILED,
                reason=Reason.DISPATCH_FAILED.value,
                error=error,
            ),
        ),
        job=due.job,
        input=due.input,
        # A retry of it must not run beside others either.
        capacity=_capacity(overlap, given.settings),
    )


def _capacity(overlap: str, settings: Settings) -> int | None:
    if overlap == policies.Overlap.CONCURRENT:
        return None
    return 1 + (settings.OVERLAP_QUEUE_DEPTH if overlap == policies.Overlap.QUEUE else 0)


def _pause_end(due: DueSchedule, now: dt.datetime) -> dt.datetime | None:
    """Until when slots pass because of a pause; None: it is not paused."""
    if due.paused_at is None:
        return None
    return now if due.paused_until is None else min(due.paused_until, now)


def _later(one: dt.datetime | None, other: dt.datetime | None) -> dt.datetime | None:
    return max((t for t in (one, other) if t is not None), default=None)


class _Slots:
    """Collects what becomes of the slots of one schedule."""

    def __init__(self, due: DueSchedule, given: Circumstances) -> None:
        self.due = due
        self.given = given
        self.found: list[Slot] = []
        self.done_until = due.last_slot
        if due.last_slot is not None and due.last_slot > given.now + _UNBELIEVABLE:
            # A clock was wrong by far when that was written; the Runs' keys still protect.
            self.done_until = None
        self.watermark = self.done_until
        self.soonest = _LONG_AGO

    def pass_over_paused(self, rule: Recurrence, end: dt.datetime) -> dt.datetime | None:
        """Record the slots up to `end` as passed; returns the first slot after it."""
        due, note = self.due, {"note": self.due.pause_note, "by": self.due.paused_by}
        decision = policies.decide(
            rule,
            due=due.next_run_at,
            now=end,
            misfire=policies.Misfire.SKIP,
            max_catch_up=0,
            grace=dt.timedelta(),
            skip_rows=self.given.skip_rows,
        )
        meta = {name: text for name, text in note.items() if text}
        self._add_dropped(decision.dropped, Reason.PAUSED, meta)
        for slot in (*(skipped.slot for skipped in decision.skipped), *decision.run):
            self._add(slot, State.SKIPPED, Reason.PAUSED, meta)
        self._move_to(decision.watermark)
        return decision.next_slot

    def catch_up_once(self) -> None:
        """Run the newest slot that passed during the pause, unless a later one runs anyway."""
        passed = [slot for slot in self.found if slot.reason == Reason.PAUSED.value]
        if passed and all(slot.status is not State.SUBMITTED for slot in self.found):
            newest = max(passed, key=lambda slot: slot.slot)
            self.found.remove(newest)
            self._add(newest.slot, State.SUBMITTED, None, {})

    def dispatch(self, rule: Recurrence, first: dt.datetime) -> dt.datetime | None:
        """Decide about the slots from `first` to now; returns the next one after now."""
        due, given = self.due, self.given
        seconds = given.settings.MISFIRE_GRACE if due.misfire_grace is None else due.misfire_grace
        grace = dt.timedelta(seconds=seconds)
        following = slots.next_after(rule, first)
        if given.now - first <= grace and (following is None or following > given.now):
            # Nearly always: one slot, on time. It also counts if it is none of the rule's:
            # then somebody put this instant into the row.
            self._add(first, State.SUBMITTED, None, {})
            self._move_to(first)
            return following
        decision = policies.decide(
            rule,
            due=first,
            now=given.now,
            misfire=due.misfire,
            max_catch_up=due.max_catch_up,
            grace=grace,
            skip_rows=given.skip_rows,
        )
        if decision.dropped is not None:
            reason = Reason(decision.dropped.reason.value)
            self._add_dropped(decision.dropped, reason, given.explain(decision.dropped.last))
        for skipped in decision.skipped:
            reason = Reason(skipped.reason.value)
            self._add(skipped.slot, State.SKIPPED, reason, given.explain(skipped.slot))
        for slot in decision.run:
            self._add(slot, State.SUBMITTED, None, {})
        self._move_to(decision.watermark or first)
        return decision.next_slot

    def skip_everything(self, reason: Reason) -> None:
        self.found = [
            dataclasses.replace(slot, status=State.SKIPPED, reason=reason.value)
            if slot.status is State.SUBMITTED
            else slot
            for slot in self.found
        ]

    def _add_dropped(
        self, dropped: policies.Dropped | None, reason: Reason, meta: Mapping[str, Any]
    ) -> None:
        if dropped is not None:
            rest = {
                "from": dropped.first.isoformat(),
                "to": dropped.last.isoformat(),
                "count": dropped.count,
            }
            self._add(dropped.last, State.SKIPPED, reason, {**meta, **rest})

    def _add(
        self, slot: dt.datetime, status: State, reason: Reason | None, meta: Mapping[str, Any]
    ) -> None:
        due = self.due
        if self.done_until is not None and slot <= self.done_until:
            return  # done before: the watermark remembers what pruning has forgotten
        run_at = slot
        if due.jitter_seconds and status is State.SUBMITTED:
            run_at += slots.jitter_for(due.name, slot, due.jitter_seconds)
            if policies.normalise_overlap(due.overlap) != policies.Overlap.CONCURRENT:
                # One after the other means in the order of their slots.
                run_at = max(run_at, self.soonest)
                self.soonest = run_at + _MICROSECOND
        self.found.append(
            Slot(
                slot=slot,
                run_at=run_at,
                status=status,
                reason="" if reason is None else reason.value,
                meta=meta,
            )
        )

    def _move_to(self, slot: dt.datetime | None) -> None:
        self.watermark = _later(self.watermark, slot)
