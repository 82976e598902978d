"""A stream: what happens, as server-sent events; facts about Runs, never their payload.

It ends by itself after a while, so that a withdrawn permission takes effect; a browser then comes
back with the position that it has reached. Under WSGI a stream holds a whole thread: there it is
shorter, only a few may be open, and where nobody else could be served meanwhile (or those few are
taken) the answer is what has happened and when to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, StreamingHttpResponse

from sync_scheduler import clock
from sync_scheduler.live import feed, seats
from sync_scheduler.live.feed import Batch, Feed
from sync_scheduler.store.reports import changes, document, runs
from sync_scheduler.store.reports.changes import Change, Position, Scope

LIFETIME_SECONDS = 300.0
THREAD_LIFETIME_SECONDS = 30.0
HEARTBEAT_SECONDS = 15.0
# Under WSGI nobody says that a reader has gone; only writing to it shows that.
THREAD_HEARTBEAT_SECONDS = 2.0
_RETURN_MILLISECONDS = 2000

Teller = Callable[[Change], dict[str, Any]]


class EventStream(StreamingHttpResponse):
    """Gives its seat back when the server is done with it, also if nobody ever read from it."""

    def __init__(self, frames: Any, seat: int) -> None:
        super().__init__(frames, content_type="text/event-stream; charset=utf-8")
        self._seat = seat
        self["Cache-Control"] = "no-cache, no-store"
        self["X-Accel-Buffering"] = "no"

    def close(self) -> None:
        seats.give_back(self._seat)
        super().close()


def begin(request: HttpRequest, holder: str, scope: Scope, tell: Teller) -> EventStream | None:
    """The stream for whoever holds the seat; None: too many are open, let them come back later.

    `tell` says what of a change this reader may know.
    """
    position = Position.parse(request.headers.get("Last-Event-ID", ""))
    found = _seat(request, holder)
    if found is None:
        return None
    seat, lifetime = found
    try:
        source = feed.shared if scope == changes.EVERYTHING else Feed(scope)
        # Joined first: what happens from here on is told, so that nothing falls in between.
        is_async = isinstance(request, ASGIRequest)
        beat = HEARTBEAT_SECONDS if is_async else THREAD_HEARTBEAT_SECONDS
        watch = Watch(source, source.join().last, tell, lifetime, beat)
        first = _first(scope, position)
    except BaseException:
        seats.give_back(seat)
        raise
    opening = f"retry: {_RETURN_MILLISECONDS}\n" + _written(first.changes, first.position, tell)
    if is_async:
        return EventStream(_awaited(opening, watch, seat), seat)
    if lifetime:
        return EventStream(_blocking(opening, watch, seat), seat)
    return EventStream(_short(opening, first, scope, tell), seat)


def _seat(request: HttpRequest, holder: str) -> tuple[int, float] | None:
    """A seat, and how long the stream may hold it; 0: only for a short answer."""
    if isinstance(request, ASGIRequest):
        choices = [(LIFETIME_SECONDS, False)]
    elif request.META.get("wsgi.multithread"):
        choices = [(THREAD_LIFETIME_SECONDS, True), (0.0, False)]
    else:
        choices = [(0.0, False)]
    for lifetime, holds_thread in choices:
        # Somebody may read a short answer slowly, but not for ever.
        until = lifetime or THREAD_LIFETIME_SECONDS
        seat = seats.take(holder, until, holds_thread=holds_thread)
        if seat is not None:
            return seat, lifetime
    return None


def _first(scope: Scope, position: Position | None) -> Batch:
    """What a reader is told at once: what it missed, or how its Run stands."""
    if position is not None:
        look = changes.since(position, scope)
        return Batch(changes=look.changes, last=0, position=look.position)
    begins_at = changes.current_position()
    run = None if scope.run is None else runs.get(scope.run)
    state = () if run is None else (changes.state_of(run),)
    return Batch(changes=state, last=0, position=begins_at)


def _written(told: Iterable[Change], position: Position, tell: Teller) -> str:
    """Frames; the position comes last, so that a reader who was cut off reads them again."""
    frames = [f"event: {one.kind}\ndata: {document.render(tell(one))}\n\n" for one in told]
    return "".join([*frames, f"id: {position}\n\n"])


class Watch:
    """One reader of a feed: what to write at each look, and when to stop."""

    def __init__(self, source: Feed, last: int, tell: Teller, lifetime: float, beat: float) -> None:
        self._source, self._last, self._tell, self._beat = source, last, tell, beat
        self._end = clock.monotonic() + lifetime
        self._spoke_at = clock.monotonic()
        self._is_over = False

    @property
    def goes_on(self) -> bool:
        return not self._is_over and clock.monotonic() < self._end

    def look(self) -> str:
        """What to write now; often nothing."""
        try:
            batch = self._source.after(self._last)
        except (DatabaseError, InterfaceError):
            self._is_over = True  # the browser comes back by itself, and is told then
            return ""
        self._last = batch.last
        if batch.lost:
            self._is_over = True
            return 'event: lost\ndata: {"kind": "lost"}\n\n'
        if not batch.changes and clock.monotonic() - self._spoke_at < self._beat:
            return ""
        self._spoke_at = clock.monotonic()
        return ": alive\n" + _written(batch.changes, batch.position, self._tell)


async def _awaited(opening: str, watch: Watch, seat: int) -> AsyncIterator[str]:
    try:
        yield opening
        while watch.goes_on:
            await asyncio.sleep(feed.LOOK_SECONDS)
            if text := await sync_to_async(watch.look)():
                yield text
    finally:
        seats.give_back(seat)


def _blocking(opening: str, watch: Watch, seat: int) -> Iterator[str]:
    try:
        yield opening
        while watch.goes_on:
            clock.sleep(feed.LOOK_SECONDS)
            if text := watch.look():
                yield text
    finally:
        seats.give_back(seat)


def _short(opening: str, first: Batch, scope: Scope, tell: Teller) -> Iterator[str]:
    yield opening
    known = {change.mark for change in first.changes}
    try:
        look = changes.since(first.position, scope)
    except (DatabaseError, InterfaceError):
        return
    if news := [change for change in look.changes if change.mark not in known]:
        yield _written(news, look.position, tell)
