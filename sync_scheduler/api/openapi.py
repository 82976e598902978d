"""The description of the HTTP interface, OpenAPI 3.1, made from the types of the answers."""

from __future__ import annotations

from typing import Any

import sync_scheduler
from sync_scheduler.api.answers import Cancelled, Error, Health, ScheduleHistory
from sync_scheduler.api.schemas import Schema, schema
from sync_scheduler.store.reports.runs import RunDetail, RunEntry
from sync_scheduler.store.reports.schedules import SchedulePage
from sync_scheduler.store.reports.status import Status

JSON = "application/json"

_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"},
         "description": "The schedule's name; slashes in it are part of the path."}  # fmt: skip
_RUN = {"name": "id", "in": "path", "required": True,
        "schema": {"type": "string", "format": "uuid"}}  # fmt: skip

_REFUSALS = {
    400: "The request is not well formed.",
    401: "Neither a staff session nor a known bearer token.",
    403: "The permission or the CSRF token is missing.",
    404: "There is no such schedule or run.",
    405: "Another method is needed.",
    409: "The state does not allow this.",
    413: "The body is too large.",
    429: "Too many streams are open, or the queue is full.",
    503: "The database cannot be used.",
}


def document() -> dict[str, Any]:
    found: dict[str, Schema] = {}
    paths = {
        "/v1/status": {
            "get": _operation("The scheduler at a glance.", found, Status),
        },
        "/v1/schedules": {
            "get": _operation(
                "Schedules by name, a page at a time.", found, SchedulePage,
                parameters=[_query("after", "string", "The name that the page before ended with."),
                            _query("limit", "integer", "1 to 500; 100 if not given.")],
            ),
        },
        "/v1/schedules/{name}/history": {
            "get": _operation(
                "The Runs of a schedule, newest first, 50 to a page.", found, ScheduleHistory,
                parameters=[_NAME,
                            _query("before", "string", "`next` of the page before."),
                            _query("limit", "integer", "1 to 50.")],
                refusals=(404,),
            ),
        },
        "/v1/schedules/{name}/trigger": {
            "post": _operation(
                "Submit a Run now, with the stored input.", found, RunEntry, status=201,
                parameters=[_NAME], refusals=(404, 409, 413, 429),
                body={"key": "Makes a repeated trigger safe: the same key, the same Run.",
                      "reason": "Kept with the Run.",
                      "input": "Names of the stored input that have another value this time."},
            ),
        },
        "/v1/runs/{id}": {
            "get": _operation("One Run with attempts, steps and trail.", found, RunDetail,
                              parameters=[_RUN], refusals=(404,)),
        },
        "/v1/runs/{id}/cancel": {
            "post": _operation("Ask a Run to stop.", found, Cancelled, parameters=[_RUN],
                               refusals=(404, 413), body={"reason": "Kept with the Run."}),
        },
        "/v1/runs/{id}/retry": {
            "post": _operation("A failed or cancelled Run again, as a new Run.", found, RunEntry,
                               status=201, parameters=[_RUN], refusals=(404, 409, 413, 429),
                               body={"key": "Makes a repeated retry safe: the same key, the"
                                            " same new Run."}),
        },
        "/v1/events": {
            "get": _operation(
                "What happens, as server-sent events.", found, None, media="text/event-stream",
                parameters=[_query("run", "string", "Only this Run."),
                            _query("schedule", "string", "Only this schedule.")],
                refusals=(404, 429),
            ),
        },
        "/v1/openapi.json": {
            "get": _operation("This description.", found, None, media=JSON),
        },
        "/metrics": {
            "get": _operation("Numbers for Prometheus.", found, None, media="text/plain"),
        },
        "/healthz": {"get": _health(found)},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "sync_scheduler", "version": sync_scheduler.__version__},
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(found.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
            },
        },
    }


def _operation(
    summary: str,
    found: dict[str, Schema],
    answer: Any,
    *,
    status: int = 200,
    media: str = JSON,
    parameters: list[dict[str, Any]] | None = None,
    refusals: tuple[int, ...] = (),
    body: dict[str, str] | None = None,
) -> dict[str, Any]:
    shape = {} if answer is None else schema(answer, found)
    content = {media: {"schema": shape}}
    responses: dict[str, Any] = {str(status): {"description": summary, "content": content}}
    for code in sorted({400, 401, 403, 405, 503, *refusals}):
        responses[str(code)] = {
            "description": _REFUSALS[code],
            "content": {JSON: {"schema": schema(Error, found)}},
        }
    made: dict[str, Any] = {"summary": summary, "responses": responses}
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        properties = {
            name: {"type": "object" if name == "input" else "string", "description": text}
            for name, text in body.items()
        }
        shape = {"type": "object", "properties": properties, "additionalProperties": False}
        made["requestBody"] = {"required": False, "content": {JSON: {"schema": shape}}}
    return made


def _health(found: dict[str, Schema]) -> dict[str, Any]:
    content = {JSON: {"schema": schema(Health, found)}}
    return {
        "summary": "Whether this process can use the database; open to all.",
        "security": [],
        "responses": {
            "200": {"description": "It can.", "content": content},
            "503": {"description": "It cannot.", "content": content},
        },
    }


def _query(name: str, kind: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}, "description": text}
