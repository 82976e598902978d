"""The frame around every endpoint: methods, access, JSON, and errors as one sentence."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from sync_scheduler.api.access import Caller, Refused, identify, require
from sync_scheduler.errors import (
    InvalidInput,
    InvalidSetting,
    KeyConflict,
    QueueFull,
    SchedulerError,
    UnknownJob,
)
from sync_scheduler.store.reports import document

logger = logging.getLogger(__name__)

P = ParamSpec("P")
Handler = Callable[Concatenate[HttpRequest, Caller, P], Any]
View = Callable[..., HttpResponseBase]

LARGEST_BODY = 65_536
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_RETRY_SECONDS = "5"
_CSRF_FIELD = "csrfmiddlewaretoken"


class Problem(Exception):
    """The request cannot be fulfilled; the message is one sentence for the caller."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def endpoint(
    *permissions: str, method: str = "GET", status: int = 200
) -> Callable[[Handler[P]], View]:
    """A view for one method, open to callers with any one of the permissions.

    The handler returns what is answered as JSON, or a finished response.
    """

    def decorate(handler: Handler[P]) -> View:
        @csrf_exempt  # `identify` checks it, for sessions
        @functools.wraps(handler)
        def view(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            allowed = {"GET": ("GET", "HEAD")}.get(method, (method,))
            if request.method not in allowed:
                refusal = _error(405, f"This address answers {method} only.")
                refusal["Allow"] = ", ".join(allowed)
                return refusal
            try:
                caller = identify(request)
                require(caller, *permissions)
                answer = handler(request, caller, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # each becomes an answer; unknown ones go on
                return _answer_to(error)
            if isinstance(answer, HttpResponseBase):
                return _private(answer)
            return json_response(answer, status=status)

        return view

    return decorate


def json_response(answer: Any, *, status: int = 200) -> HttpResponse:
    response = HttpResponse(document.render(answer), content_type="application/json", status=status)
    _private(response)
    return response


def _private(response: HttpResponseBase) -> HttpResponseBase:
    response.setdefault("Cache-Control", "no-store")
    response.setdefault("Vary", "Authorization, Cookie")
    response.setdefault("X-Content-Type-Options", "nosniff")
    return response


def _error(status: int, message: str) -> HttpResponse:
    return json_response({"error": message}, status=status)


def _answer_to(error: Exception) -> HttpResponse:
    if isinstance(error, Refused | Problem):
        response = _error(error.status, str(error))
        if error.status == 401:
            response["WWW-Authenticate"] = 'Bearer realm="sync_scheduler"'
        if error.status == 429:
            response["Retry-After"] = _RETRY_SECONDS
        return response
    if isinstance(error, QueueFull):
        response = _error(429, str(error))
        response["Retry-After"] = _RETRY_SECONDS
        return response
    if isinstance(error, InvalidInput):
        return _error(400, str(error))
    if isinstance(error, InvalidSetting):
        return _error(503, "The scheduler's settings are not valid; run manage.py check.")
    if isinstance(error, KeyConflict | UnknownJob | SchedulerError):
        return _error(409, str(error))
    if isinstance(error, DatabaseError | InterfaceError):
        logger.error("a request could not read the database", exc_info=error)
        kind = type(error).__name__
        return _error(503, f"The scheduler's database cannot be used now ({kind}).")
    raise error


def body_of(
    request: HttpRequest, allowed: Mapping[str, type], *, largest: int = LARGEST_BODY
) -> dict[str, Any]:
    """What was sent, as a JSON object or as a form, checked by name and type."""
    given = _sent(request, largest)
    for name, value in given.items():
        if name not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise Problem(400, f"The body has the unknown name {name!r}; known: {known}.")
        if value is not None and not isinstance(value, allowed[name]):
            raise Problem(400, f"{name!r} must be of type {allowed[name].__name__}.")
    return {name: value for name, value in given.items() if value is not None}


def _sent(request: HttpRequest, largest: int) -> dict[str, Any]:
    if _length(request) > largest:
        raise Problem(413, f"The body is larger than {largest:,} bytes.")
    if request.content_type in _FORMS:
        form = {name: value for name, value in request.POST.items() if name != _CSRF_FIELD}
        if any(name.lstrip().startswith("{") for name in form):
            # What `curl -d` does if nothing else is said.
            raise Problem(
                400, "The body is JSON sent as a form; send it with Content-Type: application/json."
            )
        return form
    if len(request.body) > largest:  # of one that is sent in chunks, nothing says it before
        raise Problem(413, f"The body is larger than {largest:,} bytes.")
    if not request.body.strip():
        return {}
    try:
        given = json.loads(request.body)
    except (ValueError, RecursionError):
        raise Problem(400, "The body is not JSON.") from None
    if not isinstance(given, dict):
        raise Problem(400, "The body must be a JSON object.")
    return given


def _length(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise Problem(400, "Content-Length must be a number.") from None


def key_of(given: Mapping[str, Any]) -> str | None:
    """The key that makes a repeated request safe; None: there is none."""
    key: str | None = given.get("key")
    if key == "":
        raise Problem(400, "'key' must not be empty; leave it out for none.")
    return key


def number_of(request: HttpRequest, name: str, default: int, largest: int) -> int:
    """A whole number from the query, from 1 to `largest`."""
    text = request.GET.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= largest:
        raise Problem(400, f"{name!r} must be a whole number from 1 to {largest}.")
    return int(text[:9])
