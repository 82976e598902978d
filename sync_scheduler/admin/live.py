"""Live: the stream that pages follow while somebody looks at them.

It says that something has happened to a Run, and nothing else: the page then reads itself again,
with whatever its reader may see. Where the stream is refused or ends, pages go on by asking every
few seconds.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from sync_scheduler.admin.address import identifier, number
from sync_scheduler.live import stream
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.reports import changes
from sync_scheduler.store.reports.changes import Change, Scope

if TYPE_CHECKING:
    from sync_scheduler.admin.section import Section

_COME_BACK_SECONDS = "30"
_NOBODY = uuid.UUID(int=0)


def answer(section: Section, request: HttpRequest) -> HttpResponseBase:
    """The stream, for those who may see Runs; 429 when too many are open."""
    if request.method != "GET":
        return HttpResponse(status=405)
    if not may_follow(section, request):
        raise PermissionDenied
    begun = stream.begin(request, request.user.get_username(), _scope(request), _tell)
    if begun is None:
        return HttpResponse(status=429, headers={"Retry-After": _COME_BACK_SECONDS})
    return begun


def may_follow(section: Section, request: HttpRequest) -> bool:
    return section.may(request, "view_run") or section.may(request, "change_run")


def address(section: Section, request: HttpRequest, about: Run | Schedule | None) -> str:
    """Where a page about this listens; empty for those who may not."""
    if not may_follow(section, request):
        return ""
    url = section.url("events", model="dashboard")
    if isinstance(about, Run):
        return f"{url}?run={about.id}"
    return url if about is None else f"{url}?schedule={about.id}"


def _scope(request: HttpRequest) -> Scope:
    """What does not exist has no news."""
    run, schedule = request.GET.get("run"), request.GET.get("schedule")
    if run is not None:
        return Scope(run=identifier(run) or _NOBODY)
    if schedule is not None:
        return Scope(schedule=number(schedule) or 0)
    return changes.EVERYTHING


def _tell(change: Change) -> dict[str, Any]:
    return {"kind": change.kind}
