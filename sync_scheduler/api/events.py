"""What happens, as server-sent events: who may watch what."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest

from sync_scheduler.api.access import Caller, require
from sync_scheduler.api.endpoint import Problem, endpoint
from sync_scheduler.live import stream as streams
from sync_scheduler.store.reports import changes, runs, schedules
from sync_scheduler.store.reports.changes import Change, Scope


@endpoint("view_run")
def stream(request: HttpRequest, caller: Caller) -> streams.EventStream:
    begun = streams.begin(request, caller.name, _scope(request, caller), _teller(caller))
    if begun is None:
        raise Problem(429, "Too many event streams are open; close one or come back later.")
    return begun


def _scope(request: HttpRequest, caller: Caller) -> Scope:
    run_text, name = request.GET.get("run"), request.GET.get("schedule")
    if run_text is not None:
        try:
            run = runs.get(uuid.UUID(run_text))
        except ValueError:
            run = None
        if run is None:
            raise Problem(404, "There is no such run.")
        return Scope(run=run.id)
    if name is not None:
        require(caller, "view_schedule")
        schedule = schedules.find(name)
        if schedule is None:
            raise Problem(404, f"There is no schedule named {name!r}.")
        return Scope(schedule=schedule.pk)
    return changes.EVERYTHING


def _teller(caller: Caller) -> streams.Teller:
    """Decided once, at the start: what of a change this caller may know."""
    names_schedules = caller.may("view_schedule")

    def tell(change: Change) -> dict[str, Any]:
        return {
            "kind": change.kind,
            "run": change.run,
            "job": change.job,
            "schedule": (change.schedule or None) if names_schedules else None,
            "status": change.status,
            "attempt": change.attempt,
            "node": change.node,
            "progress": change.progress,
            "at": change.at,
        }

    return tell
