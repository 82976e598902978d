"""Backfill: Runs for slots of the past that have none."""

from __future__ import annotations

import datetime as dt

from django.db import transaction

from sync_scheduler import clock, conf
from sync_scheduler.errors import InvalidInput
from sync_scheduler.intake import runs
from sync_scheduler.intake.schedules import guard_of
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Options
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.moves import slot_key
from sync_scheduler.timing import policies, slots

_MICROSECOND = dt.timedelta(microseconds=1)
# Behind what comes due meanwhile: nobody waits for the past.
_LOWER = 10
_LOWEST_PRIORITY = -100


def backfill(
    schedule: Schedule,
    start: dt.datetime,
    end: dt.datetime,
    *,
    overlap: str | None = None,
    again: bool = False,
    by: str = "",
) -> list[Run]:
    """Submit a Run for each slot from `start` to `end` that was skipped or never dispatched.

    They run one after another and behind regular ones; with `overlap="concurrent"` (or if that is
    the schedule's own policy) beside each other. `again` also repeats slots that have run. The
    same slot is filled once: filling it again returns the Run that does.
    """
    stored = Schedule.objects.get(pk=schedule.pk)
    job = registry.get(stored.job)
    chosen = _slots(stored, start, end)
    if not again:
        chosen = [slot for slot in chosen if slot not in _done(stored, chosen)]
    guard = guard_of(stored) if overlap is None else stored.pk
    if policies.normalise_overlap(overlap) == policies.Overlap.CONCURRENT:
        guard = None
    priority = max(job.policy.priority - _LOWER, _LOWEST_PRIORITY)
    filled = []
    with transaction.atomic(using=conf.get().DATABASE):
        for slot in chosen:
            key = f"backfill:{slot_key(stored.name, slot)}"
            options = Options(key=key, priority=priority, meta={"by": by} if by else None)
            origin = runs.Origin(
                trigger=Trigger.BACKFILL,
                schedule_id=stored.pk,
                schedule_name=stored.name,
                slot=slot,
                guard=guard,
            )
            filled.append(runs.submit(job, stored.input, options, origin))
    return filled


def _slots(schedule: Schedule, start: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    if start.tzinfo is None or end.tzinfo is None:
        raise InvalidInput("backfill(start, end) must have time zones.")
    if end < start:
        raise InvalidInput("backfill(start, end): the end is before the start.")
    limit = conf.get().MAX_BACKFILL
    until = min(end, clock.now())
    if schedule.enabled and schedule.next_run_at is not None:
        # What is still to be dispatched is not missing yet.
        until = min(until, schedule.next_run_at - _MICROSECOND)
    after = start - _MICROSECOND
    number = slots.count(schedule.recurrence, after, until)
    if number > limit:
        raise InvalidInput(
            f"Schedule {schedule.name!r} has {number} slots in this range; at most {limit}"
            " (MAX_BACKFILL) are filled at once. Fill it in parts."
        )
    return slots.upcoming(schedule.recurrence, after, until, limit)


def _done(schedule: Schedule, chosen: list[dt.datetime]) -> set[dt.datetime]:
    """Slots that have a Run of their own which was not skipped."""
    if not chosen:
        return set()
    rows = Run.objects.filter(
        schedule_id=schedule.pk, trigger=Trigger.SLOT, slot__gte=chosen[0], slot__lte=chosen[-1]
    ).exclude(status=State.SKIPPED)
    return {slot for slot in rows.values_list("slot", flat=True) if slot is not None}
