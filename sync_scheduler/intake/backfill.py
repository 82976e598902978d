"""Backfill: Runs for slots of the past that have none."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence

from django.db import transaction

from sync_scheduler import clock, conf
from sync_scheduler.errors import InvalidInput
from sync_scheduler.intake import runs
from sync_scheduler.intake.schedules import guard_of, require_instant
from sync_scheduler.jobs import codec, registry
from sync_scheduler.jobs.definition import Options
from sync_scheduler.lifecycle import Reason, State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store.moves import slot_key
from sync_scheduler.timing import policies, slots

_MICROSECOND = dt.timedelta(microseconds=1)
# Behind what comes due meanwhile: nobody waits for the past.
_LOWER = 10
_LOWEST_PRIORITY = -100
# Values in one statement; SQLite takes 999.
_PAGE = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A slot that backfill() would fill, or has filled before: with `run`."""

    slot: dt.datetime
    key: str
    run: Run | None

    @property
    def is_open(self) -> bool:
        return self.run is None


def plan(
    schedule: Schedule, start: dt.datetime, end: dt.datetime, *, again: bool = False
) -> list[Gap]:
    """What backfill() would do now, and nothing is done. Raises whatever that would raise."""
    stored = Schedule.objects.get(pk=schedule.pk)
    job = registry.get(stored.job)
    slots_of_range = _slots(stored, start, end)
    done = set() if again else _done(stored, slots_of_range)
    keys = {
        slot: f"backfill:{slot_key(stored.name, slot)}"
        for slot in slots_of_range
        if slot not in done
    }
    filled = _filled(stored, keys)
    gaps = [Gap(slot=slot, key=key, run=filled.get(slot)) for slot, key in keys.items()]
    for gap in gaps:
        if gap.run is not None:
            runs.require_same(gap.run, job=job.name, given=stored.input, key=gap.key)
    if any(gap.is_open for gap in gaps):
        values = codec.unseal(stored.input, f"The input of schedule {stored.name!r}")
        job.signature.check_stored(values)
    return gaps


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
    guard = guard_of(stored) if overlap is None else stored.pk
    if policies.normalise_overlap(overlap) == policies.Overlap.CONCURRENT:
        guard = None
    priority = max(job.policy.priority - _LOWER, _LOWEST_PRIORITY)
    filled = []
    with transaction.atomic(using=conf.get().DATABASE):
        for gap in plan(stored, start, end, again=again):
            options = Options(key=gap.key, priority=priority, meta={"by": by} if by else None)
            origin = runs.Origin(
                trigger=Trigger.BACKFILL,
                schedule_id=stored.pk,
                schedule_name=stored.name,
                slot=gap.slot,
                guard=guard,
            )
            # Also where another one has filled it since: the key gives the same Run.
            filled.append(gap.run or runs.submit(job, stored.input, options, origin))
    return filled


def _filled(schedule: Schedule, keys: Mapping[dt.datetime, str]) -> dict[dt.datetime, Run]:
    """The Runs by which these slots were filled, also while the schedule had another name."""
    if not keys:
        return {}
    own = Run.objects.filter(schedule_id=schedule.pk, trigger=Trigger.BACKFILL)
    rows = own.filter(slot__gte=min(keys), slot__lte=max(keys))
    found = {run.slot: run for run in rows if run.slot is not None and run.slot in keys}
    slot_of = {key: slot for slot, key in keys.items()}
    for wanted in _fingerprints(list(slot_of)):
        for run in Run.objects.filter(dedupe__in=wanted):
            if run.dedupe is not None:
                found[slot_of[wanted[run.dedupe]]] = run
    return found


def _fingerprints(keys: Sequence[str]) -> Iterator[dict[uuid.UUID, str]]:
    """What the Runs of these keys are found by, a page at a time."""
    namespace = conf.get().NAMESPACE
    for first in range(0, len(keys), _PAGE):
        yield {fingerprint(namespace, key): key for key in keys[first : first + _PAGE]}


def _slots(schedule: Schedule, start: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    for what, given in (("the start", start), ("the end", end)):
        require_instant(f"backfill(start, end): {what}", given)
    if end < start:
        raise InvalidInput("backfill(start, end): the end is before the start.")
    limit = conf.get().MAX_BACKFILL
    until = min(end, clock.now())
    if schedule.enabled and schedule.next_run_at is not None:
        # What is still to be dispatched is not missing yet.
        until = min(until, schedule.next_run_at - _MICROSECOND)
    rule, after = slots.reaching_back(schedule.recurrence, start), start - _MICROSECOND
    number = slots.count(rule, after, until)
    if number > limit:
        raise InvalidInput(
            f"Schedule {schedule.name!r} has {number} slots in this range; at most {limit}"
            " (MAX_BACKFILL) are filled at once. Fill it in parts."
        )
    return slots.upcoming(rule, after, until, limit)


def _done(schedule: Schedule, chosen: list[dt.datetime]) -> set[dt.datetime]:
    """Slots that have a Run of their own which was not skipped.

    One that could not be dispatched has only the record of that, until somebody retries it.
    """
    if not chosen:
        return set()
    own = Run.objects.filter(schedule_id=schedule.pk)
    rows = own.filter(trigger=Trigger.SLOT, slot__gte=chosen[0], slot__lte=chosen[-1]).exclude(
        status=State.SKIPPED
    )
    found = list(rows.values_list("id", "slot", "reason"))
    failed = [run for run, _, reason in found if reason == Reason.DISPATCH_FAILED]
    retried = set(own.filter(retry_of__in=failed).values_list("retry_of", flat=True))
    open_ones = set(failed) - retried
    done = {slot for run, slot, _ in found if slot is not None and run not in open_ones}
    return done | _done_before(schedule, chosen)


def _done_before(schedule: Schedule, chosen: list[dt.datetime]) -> set[dt.datetime]:
    """Slots that another schedule of this name has had, which was removed since."""
    done: set[dt.datetime] = set()
    for wanted in _fingerprints([slot_key(schedule.name, slot) for slot in chosen]):
        rows = Run.objects.filter(dedupe__in=wanted, trigger=Trigger.SLOT, schedule=None)
        slots_had = rows.exclude(status=State.SKIPPED).values_list("slot", flat=True)
        done.update(slot for slot in slots_had if slot is not None)
    return done
