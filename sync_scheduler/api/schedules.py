"""Schedules over HTTP: the list, a history, and triggering one now."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest

from sync_scheduler import conf
from sync_scheduler.api import journal
from sync_scheduler.api.access import Caller, require
from sync_scheduler.api.endpoint import (
    LARGEST_BODY,
    Problem,
    body_of,
    endpoint,
    key_of,
    number_of,
)
from sync_scheduler.models import Schedule
from sync_scheduler.store.reports import runs, schedules

_LARGEST_PAGE = 500


@endpoint("view_schedule")
def listing(request: HttpRequest, caller: Caller) -> schedules.SchedulePage:
    limit = number_of(request, "limit", schedules.PAGE, _LARGEST_PAGE)
    after = request.GET.get("after")
    if after is not None and "\0" in after:
        raise Problem(400, "'after' must be a schedule's name.")
    return schedules.page(after=after, limit=limit)


@endpoint("view_run")
def history(request: HttpRequest, caller: Caller, name: str) -> dict[str, Any]:
    schedule = _found(name)
    limit = number_of(request, "limit", runs.PAGE, runs.PAGE)
    page = runs.history(schedule, before=_before(request), limit=limit)
    return {"schedule": schedule.name, **page}


@endpoint("trigger_schedule", method="POST", status=201)
def trigger(request: HttpRequest, caller: Caller, name: str) -> runs.RunEntry:
    largest = LARGEST_BODY + conf.get().MAX_INPUT_BYTES
    given = body_of(request, {"key": str, "reason": str, "input": dict}, largest=largest)
    schedule = _found(name)
    meta = {"reason": given["reason"]} if "reason" in given else {}
    if "input" in given:
        # Whoever may not see what is stored there must not replace parts of it either.
        require(caller, "view_payload")
    run = schedule.trigger_now(
        key=key_of(given), by=caller.name, meta=meta, replacing=given.get("input")
    )
    journal.note(caller, schedule, f"Triggered run {run.id} over HTTP.")
    return runs.entry(run, run.input)


def _found(name: str) -> Schedule:
    schedule = schedules.find(name)
    if schedule is None:
        raise Problem(404, f"There is no schedule named {name!r}.")
    return schedule


def _before(request: HttpRequest) -> uuid.UUID | None:
    text = request.GET.get("before")
    if text is None:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        raise Problem(400, "'before' must be the id of a run.") from None
