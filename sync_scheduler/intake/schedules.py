"""The verbs of schedules. All of them work in the caller's transaction; wake-ups follow it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from functools import partial
from typing import Any

from django.db import transaction

from sync_scheduler import clock, conf, signals
from sync_scheduler.coordination import wakeup
from sync_scheduler.errors import InvalidInput, KeyConflict, ScheduleExists, UnknownJob
from sync_scheduler.intake import runs
from sync_scheduler.intake.definitions import define
from sync_scheduler.jobs import codec, registry
from sync_scheduler.jobs.definition import Options
from sync_scheduler.lifecycle import Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store import births, passed_slots, registrations
from sync_scheduler.timing import policies, slots
from sync_scheduler.timing.rules import Rule


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    schedule: Schedule
    created: bool
    updated: bool


def register(
    name: str,
    *,
    job: Any,
    rule: Rule,
    source: str = Schedule.Source.API,
    **options: Any,
) -> Registration:
    """Create the schedule or bring it up to date; repeating it changes nothing.

    The next run is kept unless the rule or its zone has changed. Whether it is enabled or paused
    is the operator's from then on.
    """
    done = registrations.put(define(name, job=job, rule=rule, options=options), source)
    if done.created or done.updated:
        _tell(name, done.schedule, created=done.created, updated=done.updated)
    return Registration(schedule=done.schedule, created=done.created, updated=done.updated)


def add(
    name: str, *, job: Any, rule: Rule, source: str = Schedule.Source.API, **options: Any
) -> Schedule:
    """Create a schedule; a name that is taken and a rule that has no slot left are refused."""
    definition = define(name, job=job, rule=rule, options=options)
    schedule = registrations.insert(definition, source)
    if schedule is None:
        raise ScheduleExists(
            f"A schedule named {name!r} exists already; use register() to change it,"
            " or another name."
        )
    _tell(name, schedule, created=True)
    return schedule


def edited(schedule: Schedule) -> None:
    """Another door has changed its row: wake the dispatchers, and tell who wants to know."""
    _tell(schedule.name, schedule, updated=True)


def leave_rule(before: Schedule, now: dt.datetime) -> dt.datetime | None:
    """Record what was due by a rule that ends now and will not be made up for.

    Returns the watermark: those slots are done with.
    """
    last = passed_slots.record_changed(before, now) if before.enabled else None
    done = [slot for slot in (last, before.last_slot) if slot is not None]
    return max(done, default=None)


def unregister(name: str) -> bool:
    """Remove the schedule; Runs that it has dispatched go on. False: there was none."""
    if not registrations.remove(name):
        return False
    _tell(name, None)
    return True


def trigger(
    schedule: Schedule,
    *,
    key: str | None = None,
    by: str = "",
    meta: dict[str, Any] | None = None,
    replacing: dict[str, Any] | None = None,
) -> Run:
    """Submit a Run with the stored input, now. The schedule itself is left as it is.

    `replacing` gives names of the input other values, for this once.
    """
    stored = Schedule.objects.get(pk=schedule.pk)
    try:
        run = _trigger(stored, key, {**(meta or {}), **({"by": by} if by else {})}, replacing)
    except Exception as error:
        reason = "unknown_job" if isinstance(error, UnknownJob) else str(error)
        signals.notify(signals.trigger_rejected, Schedule, schedule=stored.name, reason=reason)
        raise
    tell = partial(
        signals.notify, signals.trigger_submitted, Schedule, schedule=stored.name, run=run
    )
    transaction.on_commit(tell, using=conf.get().DATABASE, robust=True)
    return run


def _trigger(
    schedule: Schedule, key: str | None, meta: dict[str, Any], replacing: dict[str, Any] | None
) -> Run:
    job = registry.get(schedule.job)
    values = codec.unseal(schedule.input, f"The input of schedule {schedule.name!r}")
    if replacing is not None:
        values = job.signature.encode((), {**values, **replacing})
    full_key = None if key is None else f"trigger:{schedule.name}:{key}"
    options = Options(key=full_key, meta=meta)
    if faults := options.faults():
        raise InvalidInput(f"Schedule {schedule.name!r}: {'; '.join(faults)}.")
    origin = runs.Origin(
        trigger=Trigger.MANUAL,
        schedule_id=schedule.pk,
        schedule_name=schedule.name,
        guard=guard_of(schedule),
    )
    try:
        if replacing is None:
            job.signature.check_stored(values)
        return runs.submit(job, values, options, origin)
    except (InvalidInput, KeyConflict):
        if replacing is not None or full_key is None:
            raise
        # What is stored has changed since; a repeated trigger is still the same trigger.
        found = births.by_key(fingerprint(conf.get().NAMESPACE, full_key))
        if found is None or found.schedule_name != schedule.name:
            raise
        return found


def require_instant(what: str, value: object) -> None:
    if not isinstance(value, dt.datetime):
        raise InvalidInput(f"{what} must be a datetime, not {type(value).__name__}.")
    if value.tzinfo is None:
        raise InvalidInput(f"{what} must have a time zone.")


def guard_of(schedule: Schedule) -> int | None:
    """What keeps Runs of the schedule from running beside each other."""
    concurrent = policies.normalise_overlap(schedule.overlap) == policies.Overlap.CONCURRENT
    return None if concurrent else schedule.pk


def pause(
    schedule: Schedule,
    *,
    note: str = "",
    until: dt.datetime | None = None,
    by: str = "",
    catch_up: bool = False,
) -> None:
    """Let slots pass without a Run; each is recorded as skipped.

    `catch_up`: the newest of them is run when the pause ends.
    """
    if until is not None:
        require_instant("pause(until=...)", until)
    now = clock.now()
    registrations.pause(schedule.pk, now=now, until=until, note=note, by=by, catch_up=catch_up)
    schedule.refresh_from_db()
    _changed()


def resume(schedule: Schedule) -> None:
    """Go on with the next future slot; what passed meanwhile is recorded, not made up for."""
    now = clock.now()
    with transaction.atomic(using=conf.get().DATABASE):
        before = registrations.resume(schedule.pk, now=now)
        if before is not None and not before.holds_slots_back:
            passed_slots.record_paused(before, now)
    schedule.refresh_from_db()
    _changed()


def preview(schedule: Schedule, n: int = 10) -> list[dt.datetime]:
    """The next `n` slots from now on."""
    return slots.preview(schedule.recurrence, clock.now(), n)


def _tell(
    name: str, schedule: Schedule | None, *, created: bool = False, updated: bool = False
) -> None:
    facts = {"created": created, "updated": updated, "removed": schedule is None}
    registered = signals.schedule_registered
    _changed(partial(signals.notify, registered, Schedule, schedule=schedule, name=name, **facts))


def _changed(tell: partial[None] | None = None) -> None:
    """After the commit: wake the dispatchers, and tell who wants to know."""
    using = conf.get().DATABASE
    transaction.on_commit(partial(wakeup.tell, wakeup.SCHEDULE), using=using, robust=True)
    if tell is not None:
        transaction.on_commit(tell, using=using, robust=True)
