"""Who calls, and what they may do.

Two kinds of callers: a bearer token from the settings, which may do everything, and the session of
a staff user, who may do what Django's permissions say. Anybody else is refused. A session changes
something only with a CSRF token; a bearer token is not sent by browsers on their own, so it needs
none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from sync_scheduler import conf

APP = "sync_scheduler"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`user`: of a session; None for a token."""

    name: str
    user: Any = None

    def may(self, permission: str) -> bool:
        return self.user is None or bool(self.user.has_perm(f"{APP}.{permission}"))

    def may_any(self, *permissions: str) -> bool:
        return any(self.may(permission) for permission in permissions)


class Refused(Exception):
    """The caller is not let in; the message is one sentence for them."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def identify(request: HttpRequest) -> Caller:
    """The caller; raises `Refused` for anybody who is neither a token's holder nor staff."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return _by_token(given.strip())
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        raise Refused(401, "Log in as staff, or send a bearer token from API_TOKENS.")
    if not (user.is_active and user.is_staff):
        raise Refused(403, "Only staff users may use this interface.")
    if request.method not in _SAFE:
        _check_csrf(request)
    return Caller(name=user.get_username(), user=user)


def require(caller: Caller, *permissions: str) -> None:
    """Any one of these permissions is enough."""
    if not caller.may_any(*permissions):
        wanted = " or ".join(f"{APP}.{permission}" for permission in permissions)
        raise Refused(403, f"This needs the permission {wanted}.")


def _by_token(given: str) -> Caller:
    """Compared as digests and without stopping early, so that time tells nothing."""
    digest = _digest(given)
    found = 0
    for number, token in enumerate(conf.get().API_TOKENS, start=1):
        if hmac.compare_digest(digest, _digest(token)) and token:
            found = number
    if not found:
        raise Refused(401, "The bearer token is not among API_TOKENS.")
    return Caller(name=f"API token {found}")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _check_csrf(request: HttpRequest) -> None:
    """Django's own check, also where a project has left its middleware out."""
    check = CsrfViewMiddleware(lambda _: HttpResponse())
    check.process_request(request)
    if check.process_view(request, _not_exempt, (), {}) is not None:
        raise Refused(403, "The CSRF token is missing or wrong; send it as X-CSRFToken.")


def _not_exempt(request: HttpRequest) -> HttpResponse:
    return HttpResponse()
