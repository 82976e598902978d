"""Slots that passed while nobody dispatched: one record of all of them."""

from __future__ import annotations

import datetime as dt

from sync_scheduler import conf
from sync_scheduler.lifecycle import Reason, State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store import births
from sync_scheduler.store.moves import slot_key
from sync_scheduler.timing import slots

_MICROSECOND = dt.timedelta(microseconds=1)


def record_paused(schedule: Schedule, now: dt.datetime) -> bool:
    """Record what passed during a pause and was not seen by a dispatcher. False: nothing did."""
    end = schedule.pause_end(now)
    if end is None or schedule.next_run_at is None or schedule.next_run_at > end:
        return False
    rule, after = schedule.recurrence, schedule.next_run_at - _MICROSECOND
    if schedule.last_slot is not None:
        after = max(after, schedule.last_slot)  # a clock that was set back does not undo slots
    count = slots.count(rule, after, end)
    if count == 0:
        return False
    first, last = slots.upcoming(rule, after, end, 1)[0], slots.latest(rule, after, end, 1)[0]
    key = slot_key(schedule.name, last)
    meta: dict[str, object] = {"note": schedule.pause_note, "by": schedule.paused_by}
    if count > 1:
        meta |= {"from": first.isoformat(), "to": last.isoformat(), "count": count}
    return births.insert(
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
            reason=Reason.PAUSED.value,
            run_at=last,
            submitted_at=now,
            finished_at=now,
            meta={name: value for name, value in meta.items() if value},
        )
    )
