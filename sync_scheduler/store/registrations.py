"""How schedules come, change and go: idempotent by name, from any number of nodes at once."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from sync_scheduler.errors import InvalidInput, InvalidRule, ServiceUnavailable
from sync_scheduler.jobs.payload import is_sealed
from sync_scheduler.models import Schedule
from sync_scheduler.models.schedule import FAR_AWAY, RULE_FIELDS
from sync_scheduler.store.locking import alias, connection, repeat_on_deadlock
from sync_scheduler.timing import slots

_MICROSECOND = dt.timedelta(microseconds=1)
GONE = "gone"
GONE_NOTE = "Disabled: it is no longer declared in the code."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a schedule is to be. `enabled` holds for a new one; `is_anchored`: anchor was given."""

    name: str
    values: dict[str, Any]
    enabled: bool
    is_anchored: bool

    def snapshot(self) -> dict[str, Any]:
        """The definition as JSON, kept with the row to tell later what has changed since."""
        plain = {name: _plain(value) for name, value in self.values.items()}
        if not self.is_anchored:
            del plain["anchor_at"]
        return {**plain, "enabled": self.enabled}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    schedule: Schedule
    created: bool
    updated: bool


def put(definition: Definition, source: str) -> Put:
    """Create or update the schedule of this name."""

    def together() -> Put | None:
        with transaction.atomic(using=alias()):
            born = None if _exists(definition.name) else _insert(definition, source)
            if born is not None:
                return Put(schedule=born, created=True, updated=False)
            row = _locked(definition.name)
            if row is None:
                return None
            if row.name != definition.name:
                raise InvalidInput(
                    f"The database cannot tell the schedule {definition.name!r} from"
                    f" {row.name!r}, which exists already; use another name."
                )
            return Put(schedule=row, created=False, updated=_update(row, definition, source))

    # MySQL breaks a deadlock between nodes that register the same name at the same moment.
    done = repeat_on_deadlock(together)
    if done is None and not connection().in_atomic_block:
        # A transaction that may not see what others commit meanwhile has met them; the next does.
        done = repeat_on_deadlock(together)
    if done is None:
        raise ServiceUnavailable(
            f"Schedule {definition.name!r} was made or removed at this moment; register it again."
        )
    return done


def insert(definition: Definition, source: str) -> Schedule | None:
    """Create it; None if the name is taken. A rule that has no slot left is refused."""

    def together() -> Schedule | None:
        with transaction.atomic(using=alias()):
            born = None if _exists(definition.name) else _insert(definition, source)
            if born is not None and born.enabled and born.next_run_at is None:
                raise never_fires(born.name)
            return born

    return repeat_on_deadlock(together)


def never_fires(name: str) -> InvalidRule:
    return InvalidRule(f"Schedule {name!r} would never fire: its last slot is in the past.")


def rename(names: Collection[str], to: str, *, jobs: Collection[str]) -> bool:
    """Give the declared schedule of one of these names, if it is one of these jobs', another name.

    It stays the same row: what was done and what an operator decided is not forgotten.
    """

    def together() -> bool:
        with transaction.atomic(using=alias()):
            old = Schedule.objects.filter(name__in=names, job__in=jobs, source=Schedule.Source.CODE)
            found = old.values_list("name", flat=True).first()
            row = None if found is None or _exists(to) else _locked(found)
            if row is None:
                return False
            row.name = to
            try:
                with transaction.atomic(using=alias()):
                    row.save(using=alias(), update_fields=["name"])
            except IntegrityError:
                return False  # another node was quicker
            return True

    return repeat_on_deadlock(together)


def remove(name: str) -> bool:
    """False: there is none of exactly this name, whatever the database takes for it."""

    def together() -> bool:
        with transaction.atomic(using=alias()):
            # Locked, or a slot dispatched between the two statements of deleting would be left
            # with a schedule that is gone.
            row = _locked(name)
            if row is None or row.name != name:
                return False
            row.delete(using=alias())
            return True

    return repeat_on_deadlock(together)


def _exists(name: str) -> bool:
    # Without a lock: MySQL would lock the gap in which others are about to insert.
    return Schedule.objects.filter(name=name).exists()


def _locked(name: str) -> Schedule | None:
    query = Schedule.objects.filter(name=name)
    if connection().features.has_select_for_update:
        query = query.select_for_update()
    return query.first()


def _insert(definition: Definition, source: str) -> Schedule | None:
    schedule = Schedule(
        name=definition.name,
        source=source,
        enabled=definition.enabled,
        declared=definition.snapshot(),
        **definition.values,
    )
    try:
        with transaction.atomic(using=alias()):
            schedule.save(using=alias())
    except IntegrityError:
        return None
    return schedule


def _update(row: Schedule, definition: Definition, source: str) -> bool:
    """Bring the row up to the definition; what an operator decided stays (see `_follows`)."""
    before, after = row.declared or {}, definition.snapshot()
    if is_sealed(before):
        # It cannot be decoded. Only the input, which then cannot be either, is taken anew.
        before = {name: value for name, value in after.items() if name != "input"}
    changed = False
    for name, value in definition.values.items():
        if name == "anchor_at" and not _anchor_moves(row, definition):
            continue
        if getattr(row, name) == value:
            continue
        if name in RULE_FIELDS or _follows(name, before, after, source):
            setattr(row, name, value)
            changed = True
    if before.get(GONE):
        row.enabled, row.note, changed = definition.enabled, "", True
    elif before and before.get("enabled") != after["enabled"] and row.enabled != after["enabled"]:
        row.enabled, changed = definition.enabled, True
    if source == Schedule.Source.CODE and row.source != source:
        row.source, changed = source, True
    if changed or before != after:
        row.declared = after
        row.save(using=alias())
    return changed


def _follows(name: str, before: dict[str, Any], after: dict[str, Any], source: str) -> bool:
    """Whether the row takes over a value that differs.

    Through the API the caller means what it says. Code repeats itself at every start: there only
    what has changed in the code wins over what an operator changed in the row.
    """
    return source != Schedule.Source.CODE or before.get(name) != after[name]


def _anchor_moves(row: Schedule, definition: Definition) -> bool:
    """An interval without a start keeps counting from where it began, also with another end."""
    values = definition.values
    same = all(getattr(row, name) == values[name] for name in ("kind", "expression", "timezone"))
    return definition.is_anchored or not same


def mark_gone(schedule: Schedule) -> None:
    """It has vanished from the code: keep it, but do not run it."""
    schedule.enabled = False
    schedule.note = GONE_NOTE
    schedule.declared = {**(schedule.declared or {}), GONE: True}
    schedule.save(using=alias(), update_fields=["enabled", "note", "declared"])


def pause(
    schedule_id: int,
    *,
    now: dt.datetime,
    until: dt.datetime | None,
    note: str,
    by: str,
    catch_up: bool = False,
) -> bool:
    """`catch_up`: the dispatcher lets the slots alone until the pause ends."""
    return bool(
        Schedule.objects.filter(id=schedule_id).update(
            paused_at=now,
            paused_until=until,
            pause_note=note[:500],
            paused_by=by[:150],
            retry_dispatch_at=(until or FAR_AWAY) if catch_up else None,
            version=F("version") + 1,
            updated_at=now,
        )
    )


def resume(schedule_id: int, *, now: dt.datetime) -> Schedule | None:
    """End the pause, going on with the next future slot. Returns the row as it was before."""
    with transaction.atomic(using=alias()):
        query = Schedule.objects.filter(id=schedule_id)
        if connection().features.has_select_for_update:
            query = query.select_for_update()
        row = query.first()
        if row is None:
            return None
        if row.holds_slots_back and row.next_run_at is not None and row.next_run_at <= now:
            # The pause ends now, and the dispatcher does what it does when one ends by itself.
            Schedule.objects.filter(id=row.id).update(
                paused_until=now, retry_dispatch_at=now, version=F("version") + 1, updated_at=now
            )
            return row
        Schedule.objects.filter(id=row.id).update(
            paused_at=None,
            paused_until=None,
            pause_note="",
            paused_by="",
            version=F("version") + 1,
            updated_at=now,
            retry_dispatch_at=None if row.holds_slots_back else row.retry_dispatch_at,
            **_behind_pause(row, now),
        )
        return row


def _behind_pause(row: Schedule, now: dt.datetime) -> dict[str, dt.datetime | None]:
    """Where the schedule goes on: slots of the pause have passed, also of one that has run out."""
    end = row.pause_end(now)
    if end is None or row.next_run_at is None or row.next_run_at > end:
        return {}
    last = slots.latest(row.recurrence, row.next_run_at - _MICROSECOND, end, 1)
    done = [slot for slot in (*last, row.last_slot) if slot is not None]
    return {
        "next_run_at": slots.next_after(row.recurrence, end),
        "last_slot": max(done, default=None),
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else value
