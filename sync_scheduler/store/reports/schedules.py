"""Schedules as operators see them: what they do, when next, how the last run went."""

from __future__ import annotations

import datetime as dt
import difflib
import uuid
from typing import TypedDict

from django.db.models import OuterRef, Subquery

from sync_scheduler.models import Run, Schedule

PAGE = 100
# Enough to find what somebody meant; more names than that are not read for a typing error.
_COMPARED = 5000


class LastRun(TypedDict):
    id: uuid.UUID
    status: str


class ScheduleEntry(TypedDict):
    name: str
    job: str
    rule: str
    timezone: str
    enabled: bool
    note: str
    paused: bool
    paused_until: dt.datetime | None
    pause_note: str
    paused_by: str
    next_run_at: dt.datetime | None
    last_slot: dt.datetime | None
    last_run: LastRun | None
    misfire: str
    overlap: str
    source: str
    failures: int
    error: str


class SchedulePage(TypedDict):
    """`next`: the name to give as `after` for the following page; None: this was the last one."""

    schedules: list[ScheduleEntry]
    next: str | None


def page(*, after: str | None = None, limit: int | None = PAGE) -> SchedulePage:
    """Schedules by name, a page at a time; all of them without a limit. One query."""
    query = Schedule.objects.order_by("name")
    if after is not None:
        query = query.filter(name__gt=after)
    newest = Run.objects.filter(schedule_id=OuterRef("pk")).order_by("-id")
    query = query.annotate(
        last_run_id=Subquery(newest.values("id")[:1]),
        last_run_status=Subquery(newest.values("status")[:1]),
    )
    rows = list(query if limit is None else query[: limit + 1])
    has_more = limit is not None and len(rows) > limit
    rows = rows[:limit] if has_more else rows
    return SchedulePage(
        schedules=[_entry(row, row.last_run_id, row.last_run_status) for row in rows],
        next=rows[-1].name if has_more else None,
    )


def _entry(schedule: Schedule, last_id: uuid.UUID | None, last_status: str | None) -> ScheduleEntry:
    last = None
    if last_id is not None and last_status is not None:
        last = LastRun(id=last_id, status=last_status)
    return ScheduleEntry(
        name=schedule.name,
        job=schedule.job,
        rule=schedule.rule,
        timezone=schedule.timezone,
        enabled=schedule.enabled,
        note=schedule.note,
        paused=schedule.is_paused,
        paused_until=schedule.paused_until,
        pause_note=schedule.pause_note,
        paused_by=schedule.paused_by,
        next_run_at=schedule.next_run_at,
        last_slot=schedule.last_slot,
        last_run=last,
        misfire=schedule.misfire,
        overlap=schedule.overlap,
        source=schedule.source,
        failures=schedule.failures,
        error=schedule.error,
    )


def find(name: str) -> Schedule | None:
    """The schedule of exactly this name; some databases would take another one for it."""
    if "\0" in name:
        return None
    found = Schedule.objects.filter(name=name).first()
    return found if found is not None and found.name == name else None


def similar_names(name: str) -> list[str]:
    """Names that somebody who typed this may have meant, best first."""
    names = list(Schedule.objects.order_by("name").values_list("name", flat=True)[:_COMPARED])
    by_small = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), by_small, n=3, cutoff=0.5)
    return [by_small[known] for known in close]
