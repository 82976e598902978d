"""What happens, as server-sent events: facts about Runs, never their payload.

Under ASGI the answer is a stream. It ends by itself after a while, so that a withdrawn permission
takes effect; a browser then comes back with the position that it has reached. Under WSGI a stream
would hold a whole worker thread, so there the answer is short: what has happened since the
position, and when to come back.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from sync_scheduler import clock
from sync_scheduler.api import feed, seats
from sync_scheduler.api.access import Caller, require
from sync_scheduler.api.endpoint import Problem, endpoint
from sync_scheduler.api.feed import Batch, Feed
from sync_scheduler.store.reports import changes, document, runs, schedules
from sync_scheduler.store.reports.changes import Change, Position, Scope

LIFETIME_SECONDS = 300.0
HEARTBEAT_SECONDS = 15.0
_RETURN_MILLISECONDS = 2000

Teller = Callable[[Change], dict[str, Any]]


class EventStream(StreamingHttpResponse):
    """Gives its seat back when the server is done with it, also if nobody ever read from it."""

    def __init__(self, frames: AsyncIterator[str], seat: int) -> None:
        super().__init__(frames)
        self._seat = seat

    def close(self) -> None:
        seats.give_back(self._seat)
        super().close()


@endpoint("view_run")
def stream(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    scope = _scope(request, caller)
    position = Position.parse(request.headers.get("Last-Event-ID", ""))
    tell = _teller(caller)
    response: HttpResponseBase
    if isinstance(request, ASGIRequest):
        response = _open(caller, scope, position, tell)
    else:
        response = HttpResponse(_opening(_first(scope, position), tell))
    response["Content-Type"] = "text/event-stream; charset=utf-8"
    response["Cache-Control"] = "no-cache, no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _open(caller: Caller, scope: Scope, position: Position | None, tell: Teller) -> EventStream:
    seat = seats.take(caller.name, LIFETIME_SECONDS)
    if seat is None:
        raise Problem(429, "Too many event streams are open; close one or come back later.")
    try:
        source = feed.shared if scope == changes.EVERYTHING else Feed(scope)
        # Joined first: what happens from here on is told, so that nothing falls in between.
        joined = source.join()
        first = _first(scope, position)
    except BaseException:
        seats.give_back(seat)
        raise
    return EventStream(_frames(source, joined.last, _opening(first, tell), tell, seat), seat)


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


def _first(scope: Scope, position: Position | None) -> Batch:
    """What a caller is told at once: what it missed, or how its Run stands."""
    if position is not None:
        look = changes.since(position, scope)
        return Batch(changes=look.changes, last=0, position=look.position)
    begin = changes.current_position()
    run = None if scope.run is None else runs.get(scope.run)
    state = () if run is None else (changes.state_of(run),)
    return Batch(changes=state, last=0, position=begin)


def _teller(caller: Caller) -> Teller:
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


def _opening(first: Batch, tell: Teller) -> str:
    return f"retry: {_RETURN_MILLISECONDS}\n" + _written(first.changes, first.position, tell)


def _written(told: Iterable[Change], position: Position, tell: Teller) -> str:
    """Frames; the position comes last, so that a reader who was cut off reads them again."""
    frames = [f"event: {one.kind}\ndata: {document.render(tell(one))}\n\n" for one in told]
    return "".join([*frames, f"id: {position}\n\n"])


async def _frames(
    source: Feed, last: int, opening: str, tell: Teller, seat: int
) -> AsyncIterator[str]:
    end = clock.monotonic() + LIFETIME_SECONDS
    spoke_at = clock.monotonic()
    try:
        yield opening
        while clock.monotonic() < end:
            await asyncio.sleep(feed.LOOK_SECONDS)
            batch = await sync_to_async(source.after)(last)
            last = batch.last
            if batch.lost:
                yield 'event: lost\ndata: {"kind": "lost"}\n\n'
                return
            if batch.changes or clock.monotonic() - spoke_at >= HEARTBEAT_SECONDS:
                spoke_at = clock.monotonic()
                yield ": alive\n" + _written(batch.changes, batch.position, tell)
    except (DatabaseError, InterfaceError):
        return  # the browser comes back by itself, and is told then
    finally:
        seats.give_back(seat)
