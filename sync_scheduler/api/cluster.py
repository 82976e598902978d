"""The scheduler as a whole over HTTP: status, health, metrics, and the description of it all."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from sync_scheduler.api import exposition, openapi
from sync_scheduler.api.access import Caller
from sync_scheduler.api.endpoint import endpoint, json_response
from sync_scheduler.errors import InvalidSetting
from sync_scheduler.store.locking import database_now
from sync_scheduler.store.reports import status


@endpoint("view_run", "view_schedule")
def show_status(request: HttpRequest, caller: Caller) -> status.Status:
    found = status.snapshot()
    if not caller.may("view_schedule"):
        found["next"] = []
    return found


@endpoint("view_run", "view_schedule")
def metrics(request: HttpRequest, caller: Caller) -> HttpResponse:
    return HttpResponse(exposition.text(), content_type=exposition.CONTENT_TYPE)


@endpoint("view_run", "view_schedule")
def description(request: HttpRequest, caller: Caller) -> dict[str, Any]:
    return openapi.document()


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Open to all, and so it says nothing but whether this process can use the database."""
    try:
        status.leader(database_now())
    except (DatabaseError, InterfaceError, InvalidSetting):
        return json_response({"status": "unavailable"}, status=503)
    return json_response({"status": "ok"})
