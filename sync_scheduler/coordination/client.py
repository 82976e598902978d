"""The connection to Redis: made once per process, never inherited, never waited for long."""

from __future__ import annotations

import functools
import importlib.resources
import os
import threading
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.exceptions import (
    AuthenticationError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from sync_scheduler import clock, conf
from sync_scheduler.coordination.keys import Keys
from sync_scheduler.errors import InvalidSetting, ServiceUnavailable

# The second is what a Cluster raises none of whose nodes answers; it is no RedisError.
UNREACHABLE = (RedisError, RedisClusterException, OSError)
OLDEST = (6, 2)
# Not in the library's words: they may quote a part of the password.
_UNREADABLE = (
    "REDIS_URL cannot be read; write it like redis://user:password@host:6379/0, with"
    " special characters of the password percent-encoded."
)
# After a failure nobody asks again for this long: a web request must not pay for a dead server.
_BREAK_SECONDS = 1.0

_lock = threading.Lock()
_clients: dict[tuple[int, str], Any] = {}
_broken_until = 0.0


def client() -> Any:
    """The client of this process; a child of a fork gets its own."""
    url = conf.get().REDIS_URL
    if url is None:
        raise ServiceUnavailable("REDIS_URL is not set; this is embedded mode.")
    key = (os.getpid(), url)
    found = _clients.get(key)
    if found is None:
        with _lock:
            found = _clients.get(key) or _clients.setdefault(key, connect(url))
    return found


def keys() -> Keys:
    return Keys(conf.get().NAMESPACE)


def connect(url: str, timeout: float | None = None) -> Any:
    """A new client for any of the URL forms."""
    seconds = conf.get().REDIS_TIMEOUT if timeout is None else timeout
    options: dict[str, Any] = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "decode_responses": True,
        # What every server understands: one that is too old is to say its version, not an error.
        "protocol": 2,
        # Anybody may write to Redis; bytes that are no text must not stop who reads them.
        "encoding_errors": "replace",
        "health_check_interval": 0,
        # The library would try for seconds on its own; whoever asks here has a way without Redis.
        "retry": Retry(NoBackoff(), 1),
    }
    scheme = url.split("://", 1)[0]
    if scheme != "unix":
        options["socket_keepalive"] = True  # the library refuses it where it has no meaning
    if scheme.startswith("rediss"):
        # Older versions of the library check who signed a certificate, but not whose it is.
        options["ssl_check_hostname"] = True
    if scheme.endswith("+sentinel"):
        return _through_sentinel(url, options)
    if scheme.endswith("+cluster"):
        plain = url.replace("+cluster", "", 1)
        return redis.RedisCluster.from_url(plain, **options)
    return redis.Redis.from_url(url, **options)


def blocking_client(block_seconds: float) -> Any:
    """A client for reads that wait in the server; its own deadline lies behind the server's."""
    url = conf.get().REDIS_URL
    if url is None:
        raise ServiceUnavailable("REDIS_URL is not set; this is embedded mode.")
    return connect(url, timeout=block_seconds + 2)


def _through_sentinel(url: str, options: dict[str, Any]) -> Any:
    """`redis+sentinel://user:password@host1:26379,host2:26379/service/db`."""
    secure = url.startswith("rediss")
    parts = urlsplit(url)
    *_, hosts = parts.netloc.rpartition("@")
    path = [unquote(part) for part in parts.path.split("/") if part]
    if not path:
        raise InvalidSetting(
            "REDIS_URL for Sentinel must name the service: redis+sentinel://host:26379/service/0."
        )
    query = dict(parse_qsl(parts.query))
    sentinel = redis.Sentinel(  # type: ignore[no-untyped-call]
        [_address(host) for host in hosts.split(",")],
        sentinel_kwargs={
            "username": query.get("sentinel_username"),
            "password": query.get("sentinel_password"),
            "socket_timeout": options["socket_timeout"],
            "socket_connect_timeout": options["socket_connect_timeout"],
        },
        ssl=secure,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        db=int(path[1]) if len(path) > 1 else 0,
        **options,
    )
    return sentinel.master_for(path[0])  # type: ignore[no-untyped-call]


def _address(host: str) -> tuple[str, int]:
    """Of a Sentinel: `name`, `name:26379`, or `[::1]:26379`."""
    parts = urlsplit(f"//{host}")
    return parts.hostname or "localhost", parts.port or 26379


def faults() -> list[str]:
    """What is wrong with the URL itself; no server is asked."""
    url = conf.get().REDIS_URL
    if url is None:
        return []
    # A client for a Cluster connects when it is made; the others do when they are used.
    plain = url.replace("+cluster", "", 1)
    try:
        if _has_stray_password(url):
            return [_UNREADABLE]
        made = connect(plain)
        if "+" not in plain:
            made.connection_pool.make_connection()  # where options of the URL are looked at
    except InvalidSetting as error:
        return [str(error)]
    except (ValueError, TypeError):
        return [_UNREADABLE]
    return []


def _has_stray_password(url: str) -> bool:
    """A password with a bare `/`, `?` or `#`: what comes before it would pass as host and port."""
    if url.startswith("unix:"):
        return False
    parts = urlsplit(url)
    words = [word for word in parts.query.split("&") if word]
    return "@" in parts.path + parts.fragment or any("=" not in word for word in words)


def shown_url() -> str:
    """The URL for people: without user, password or query."""
    url = conf.get().REDIS_URL
    if url is None:
        return ""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def require_usable() -> None:
    """Raise one clear sentence unless a Redis that is new enough answers."""
    try:
        info = client().info("server")
    except UNREACHABLE as error:
        raise ServiceUnavailable(_why_not(error)) from None
    if "redis_version" not in info:  # a Cluster answers per node
        info = next(iter(info.values()))
    version = str(info["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ServiceUnavailable(
            f"Redis at {shown_url()} is version {version}; 6.2 or newer is needed."
        )


def _why_not(error: Exception) -> str:
    """In our words: those of the server may repeat what it was sent, the password included."""
    where, kind = f"Redis at {shown_url()}", type(error).__name__
    if isinstance(error, AuthenticationError):
        return f"{where} does not accept the user or the password of REDIS_URL; mend them there."
    if isinstance(error, ResponseError):
        return (
            f"{where} answers with an error ({kind}); look at the number of the database in"
            " REDIS_URL and at what its user may do."
        )
    return (
        f"{where} does not answer ({kind});"
        " start it, mend REDIS_URL, or leave REDIS_URL out for embedded mode."
    )


def is_broken() -> bool:
    """Whether Redis failed a moment ago and should not be asked on the caller's path."""
    return clock.monotonic() < _broken_until


def report_broken() -> None:
    global _broken_until
    _broken_until = clock.monotonic() + _BREAK_SECONDS


@functools.cache
def _source(name: str) -> str:
    folder = importlib.resources.files("sync_scheduler.coordination") / "scripts"
    return (folder / f"{name}.lua").read_text(encoding="utf-8")


def script(name: str, on: Any) -> Script:
    """The script of this file, bound to a client; it survives a server that forgot it."""
    registered: Script = on.register_script(_source(name))
    return registered
