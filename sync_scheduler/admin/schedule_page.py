"""The page of one schedule: what became of each slot, and what comes next."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from sync_scheduler import clock
from sync_scheduler.admin import (
    marks,
    moments,
    payloads,
    pulse,
    schedule_preview,
    schedule_rows,
    schedule_state,
    ticks,
    timeline,
)
from sync_scheduler.admin.address import instant, query
from sync_scheduler.errors import InvalidRule
from sync_scheduler.intake.declared import drift
from sync_scheduler.jobs.redaction import MASK
from sync_scheduler.models import Schedule
from sync_scheduler.timing import slots

if TYPE_CHECKING:
    from sync_scheduler.admin.schedule_section import ScheduleSection

_COMING = 5


def read(admin: ScheduleSection, request: HttpRequest, schedule: Schedule) -> dict[str, Any]:
    """Everything that the page shows."""
    now, beat = clock.now(), pulse.feel()
    at = instant(request.GET.get("at", ""))
    found = ticks.read(schedule, now=now, pulse=beat, at=at)
    coming, broken = next_slots(schedule, now)
    runs = schedule_rows.newest_runs([schedule.id]).get(schedule.id, [])
    last = schedule_rows.last_ended(runs)
    active = [run for run in runs if not run.is_finished]
    urls = {
        tick.run.id: admin.url("change", tick.run.id, model="run") for tick in found if tick.run
    }
    may_see = admin.may(request, "view_payload", schedule)
    return {
        "schedule": schedule,
        "standing": schedule_state.standing(schedule, last, now),
        "sentence": schedule_state.sentence(schedule),
        "next": schedule_state.next_run(schedule, now),
        "last": last,
        "last_url": admin.url("change", last.id, model="run") if last else "",
        "last_at": moments.element(
            last.finished_at if last else None, now=now, otherwise=_("never")
        ),
        "active": [
            {
                "url": admin.url("change", run.id, model="run"),
                "mark": marks.of_run(run.status, attempt=run.attempt, reason=run.reason),
                "id": run.short_id,
            }
            for run in active
        ],
        "broken": broken,
        "timeline": timeline.draw(found, coming, zone=schedule.timezone, now=now)
        if found or coming
        else None,
        "ticks": [_tick(tick, schedule, now, urls, admin) for tick in found],
        "coming": [
            {
                "at": moments.element(slot, schedule.timezone, now=now),
                "utc": moments.utc(slot),
                "is_skipped": is_in_pause(schedule, slot),
            }
            for slot in coming
        ],
        "changes": clock_changes(schedule, now),
        "is_from_code": schedule.source == Schedule.Source.CODE,
        "drift": [
            {"name": name, "code": code, "row": row}
            for name, (code, row) in drift(schedule).items()
            if may_see or name not in {"input", "meta"}
        ],
        "input": payloads.input_text(schedule) if may_see else MASK,
        "actions": _actions(admin, request, schedule),
        "runs_url": f"{admin.url('changelist', model='run')}?schedule={schedule.id}",
        "history_url": admin.url("history", schedule.id),
        "revert_url": admin.url("revert", schedule.id, model="schedule")
        if admin.may(request, "change_schedule", schedule)
        else "",
    }


def next_slots(schedule: Schedule, now: dt.datetime) -> tuple[list[dt.datetime], str]:
    """The next slots, or why they cannot be computed."""
    if not schedule.enabled:
        return [], ""
    try:
        return slots.preview(schedule.recurrence, now, _COMING), ""
    except InvalidRule as error:
        return [], str(error)


def is_in_pause(schedule: Schedule, slot: dt.datetime) -> bool:
    return schedule.is_paused and (schedule.paused_until is None or slot <= schedule.paused_until)


def clock_changes(schedule: Schedule, now: dt.datetime) -> list[str]:
    try:
        return schedule_preview.changes(schedule.recurrence, now)
    except InvalidRule:
        return []


def _tick(
    tick: ticks.Tick,
    schedule: Schedule,
    now: dt.datetime,
    urls: dict[Any, str],
    admin: ScheduleSection,
) -> dict[str, Any]:
    return {
        "tick": tick,
        "due": moments.exact(tick.slot, schedule.timezone, now=now),
        "anchor": f"{tick.slot.astimezone(dt.UTC):%Y%m%dT%H%M%S}",
        "url": urls.get(tick.run.id, "") if tick.run else "",
        "fill_url": admin.url("change", tick.filled_by.id, model="run") if tick.filled_by else "",
    }


def _actions(
    admin: ScheduleSection, request: HttpRequest, schedule: Schedule
) -> list[dict[str, Any]]:
    wanted = [
        (_("Trigger now…"), "trigger", "trigger_schedule"),
        (_("Resume…"), "resume", "pause_schedule")
        if schedule.is_paused
        else (_("Pause…"), "pause", "pause_schedule"),
        (_("Edit…"), "edit", "change_schedule"),
        (_("Fill gap…"), "backfill", "trigger_schedule"),
        (_("Remove…"), "delete", "delete_schedule"),
    ]
    runs = admin.url("changelist", model="run") + query({"schedule": schedule.id})
    return [
        {
            "title": title,
            "key": name,
            "url": admin.url(name, schedule.id, model="schedule"),
            "missing": "" if admin.may(request, permission, schedule) else permission,
        }
        for title, name, permission in wanted
    ] + [{"title": _("All runs"), "key": "runs", "url": runs, "missing": ""}]
