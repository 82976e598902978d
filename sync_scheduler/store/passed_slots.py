"""Slots that passed while nobody dispatched: one record of all of them."""

from __future__ import annotations

import datetime as dt

from sync_scheduler import conf
from sync_scheduler.errors import InvalidRule
from sync_scheduler.lifecycle import Reason, State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store import births
from sync_scheduler.store.moves import slot_key
from sync_scheduler.timing import slots

_MICROSECOND = dt.timedelta(microseconds=1)


def record_paused(schedule: Schedule, now: dt.datetime) -> dt.datetime | None:
    """Record what passed during a pause and was not seen by a dispatcher; the last of it."""
    end = schedule.pause_end(now)
    if end is None:
        return None
    meta = {"note": schedule.pause_note, "by": schedule.paused_by}
    return _record(schedule, end, now, Reason.PAUSED, {k: v for k, v in meta.items() if v})


def record_changed(schedule: Schedule, now: dt.datetime) -> dt.datetime | None:
    """Record what was due, by the schedule as it was, when it got another rule or was disabled.

    Returns the last of those slots. A reminder that is moved has not been missed.
    """
    if schedule.kind == Schedule.Kind.ONCE:
        return None
    try:
        if schedule.pause_end(now) == now:
            return record_paused(schedule, now)
        return _record(schedule, now, now, Reason.CHANGED, {})
    except InvalidRule:
        return None  # nobody can say what was due by it; that may be why it is changed


def _record(
    schedule: Schedule, end: dt.datetime, now: dt.datetime, reason: Reason, meta: dict[str, object]
) -> dt.datetime | None:
    """The last slot up to `end` that nobody has dealt with; None: there is none."""
    if schedule.next_run_at is None or schedule.next_run_at > end:
        return None
    rule = slots.reaching_back(schedule.recurrence, schedule.next_run_at)
    after = schedule.next_run_at - _MICROSECOND
    if schedule.last_slot is not None:
        after = max(after, schedule.last_slot)  # a clock that was set back does not undo slots
    count = slots.count(rule, after, end)
    if count == 0:
        return None
    first, last = slots.upcoming(rule, after, end, 1)[0], slots.latest(rule, after, end, 1)[0]
    key = slot_key(schedule.name, last)
    if count > 1:
        meta |= {"from": first.isoformat(), "to": last.isoformat(), "count": count}
    births.insert(
        Run(
            job=schedule.job,
            input=schedule.input,
            key=key,
            dedupe=fingerprint(conf.get().NAMESPACE, key),
            schedule_id=schedule.pk,
            schedule_name=schedule.name,
            slot=last,
            trigger=Trigger.SLOT,
            status=State.SKIPPED,
            reason=reason.value,
            run_at=last,
            submitted_at=now,
            finished_at=now,
            meta=meta,
        )
    )
    return last
