"""The settings: one frozen value, read once, checked before anything starts.

Django's `SYNC_SCHEDULER` wins over the environment (`SYNC_SCHEDULER_<NAME>`), which wins over
the default. Every fault is collected, so that a person mends all of them in one go.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, get_type_hints

import environ
from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import connections

from sync_scheduler.errors import InvalidSetting

PREFIX = "SYNC_SCHEDULER_"
# Written out: read as "anything else is False", a typo would switch STRICT_JOBS off.
_BOOLEANS = {
    **dict.fromkeys(("true", "on", "ok", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "off", "no", "n", "0"), False),
}
REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "rediss+cluster")
# Variables with our prefix that are not ours to judge: the switches of the fault tests, and what
# Kubernetes gives every container when a service is called sync-scheduler.
_NOT_SETTINGS = re.compile(r"FAILPOINTS.*|SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?")


# A hundred years. Far longer spans lead to times before the year 1, which nothing can hold.
LONGEST_RETENTION_DAYS = 36_525


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are in seconds unless the name says otherwise."""

    REDIS_URL: str | None = None
    NAMESPACE: str = "default"
    DATABASE: str = "default"
    LEADER_LEASE: float = 5.0
    LEADER_HEARTBEAT: float = 0.5
    NODE_LEASE: float = 30.0
    NODE_HEARTBEAT: float = 5.0
    MISFIRE_GRACE: float = 60.0
    RETENTION_DAYS: float = 7.0
    STRICT_JOBS: bool = True
    MAX_DISPATCH_FAILURES: int = 5
    SHUTDOWN_GRACE: float = 25.0
    RUN_IN_SERVER: bool = False
    DISPATCH_BATCH: int = 200
    OVERLAP_QUEUE_DEPTH: int = 1
    MAX_BACKFILL: int = 1000
    QUEUES: tuple[str, ...] = ()
    PROCESSES: int = 0
    THREADS: int = 4
    CLAIM_BATCH: int = 100
    POLL_INTERVAL: float = 1.0
    RECONCILE_INTERVAL: float = 5.0
    SWEEP_INTERVAL: float = 5.0
    ORPHAN_GRACE: float = 300.0
    PRUNE_INTERVAL: float = 60.0
    CRASH_LIMIT: int = 3
    RECYCLE_RUNS: int = 0
    RECYCLE_MEMORY_MB: int = 0
    MAX_MEMORY_MB: int = 0
    ASYNC_SLOTS: int = 50
    UNKNOWN_JOB_GRACE: float = 300.0
    MAX_CHAIN_DEPTH: int = 50
    JOIN_TIMEOUT: float = 30.0
    REDIS_TIMEOUT: float = 0.25
    MAX_INPUT_BYTES: int = 262_144
    MAX_RESULT_BYTES: int = 65_536
    MAX_TRACEBACK_BYTES: int = 32_768
    PAYLOAD_CODEC: str | None = None
    QUEUE_QUOTAS: Mapping[str, int] = dataclasses.field(default_factory=dict)
    API_TOKENS: tuple[str, ...] = ()
    ADMIN_JOBS: tuple[str, ...] = ()
    CODE_VERSION: str | None = None

    @property
    def uses_redis(self) -> bool:
        return self.REDIS_URL is not None


# Bounds that a type cannot say: smallest value, and whether it may be equal to it.
_POSITIVE = (
    *("LEADER_LEASE", "LEADER_HEARTBEAT", "NODE_LEASE", "NODE_HEARTBEAT", "RETENTION_DAYS"),
    *("MAX_DISPATCH_FAILURES", "DISPATCH_BATCH", "MAX_BACKFILL", "THREADS", "CLAIM_BATCH"),
    *("POLL_INTERVAL", "RECONCILE_INTERVAL", "SWEEP_INTERVAL", "PRUNE_INTERVAL", "CRASH_LIMIT"),
    *("MAX_CHAIN_DEPTH", "JOIN_TIMEOUT", "REDIS_TIMEOUT", "MAX_INPUT_BYTES", "MAX_RESULT_BYTES"),
    *("MAX_TRACEBACK_BYTES", "OVERLAP_QUEUE_DEPTH", "ASYNC_SLOTS"),
)
_NOT_NEGATIVE = (
    *("SHUTDOWN_GRACE", "PROCESSES", "ORPHAN_GRACE", "RECYCLE_RUNS", "RECYCLE_MEMORY_MB"),
    *("MAX_MEMORY_MB", "UNKNOWN_JOB_GRACE"),
)


def get() -> Settings:
    """The settings in force; raises one `InvalidSetting` that names every fault."""
    value, faults = _read()
    if faults:
        raise InvalidSetting(" ".join(faults))
    return value


def faults() -> list[str]:
    """Everything that is wrong with the settings, a sentence each."""
    return list(_read()[1])


@cache
def _read() -> tuple[Settings, tuple[str, ...]]:
    given = getattr(django_settings, "SYNC_SCHEDULER", {})
    if not isinstance(given, Mapping):
        return Settings(), ("SYNC_SCHEDULER must be a dictionary.",)
    hints = get_type_hints(Settings)
    found: list[str] = [
        f"SYNC_SCHEDULER has no setting {name!r}; {_remedy(str(name), hints)}"
        for name in given
        if name not in hints
    ]
    found += [
        f"The environment variable {PREFIX}{name} is no setting; {_remedy(name, hints)}"
        for name in _names_in_environment()
        if name not in hints
    ]
    values: dict[str, Any] = {}
    for name, kind in hints.items():
        try:
            if name in given:
                values[name] = _convert(name, given[name], kind)
            elif PREFIX + name in environ.Env.ENVIRON:
                values[name] = _convert(name, _from_environment(name, kind), kind)
        except InvalidSetting as error:
            found.append(str(error))
    settings = Settings(**values)
    return settings, tuple(found + _range_faults(settings))


def _names_in_environment() -> list[str]:
    ours = (name for name in environ.Env.ENVIRON if name.startswith(PREFIX))
    names = sorted(name.removeprefix(PREFIX) for name in ours)
    return [name for name in names if not _NOT_SETTINGS.fullmatch(name)]


def _remedy(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name.upper(), known, n=1)
    return f"did you mean {near[0]}?" if near else "remove it or mend its spelling."


def _from_environment(name: str, kind: Any) -> Any:
    env = environ.Env()
    try:
        if kind is bool:
            return _BOOLEANS[env.str(PREFIX + name).strip().lower()]
        if kind is int:
            return env.int(PREFIX + name)
        if kind is float:
            return env.float(PREFIX + name)
        if kind == tuple[str, ...]:
            return tuple(env.list(PREFIX + name))
        if kind == Mapping[str, int]:
            pairs = (pair.partition("=") for pair in env.list(PREFIX + name))
            return {word.strip(): int(number) for word, _, number in pairs}
        return env.str(PREFIX + name) or None
    except (ValueError, KeyError):
        raise InvalidSetting(
            f"The environment variable {PREFIX}{name} must be {_word(kind)}."
        ) from None


def _convert(name: str, value: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == tuple[str, ...]:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif kind == Mapping[str, int]:
        if isinstance(value, Mapping) and all(
            isinstance(word, str) and type(number) is int for word, number in value.items()
        ):
            return dict(value)
    elif kind == str | None:
        if value is None or isinstance(value, str):
            return value or None
    elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise InvalidSetting(
        f"SYNC_SCHEDULER[{name!r}] must be {_word(kind)}, not {type(value).__name__}."
    )


def _word(kind: Any) -> str:
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    if kind == tuple[str, ...]:
        return "a list of texts"
    if kind == Mapping[str, int]:
        return "names with whole numbers"
    return words.get(kind, "a text or None")


def _range_faults(s: Settings) -> list[str]:
    # Written so that NaN, which compares as false with everything, is caught as well.
    found = [
        f"{name} must be a number larger than 0."
        for name in _POSITIVE
        if not 0 < getattr(s, name) < math.inf
    ]
    found += [
        f"{name} must be a number and not negative."
        for name in _NOT_NEGATIVE
        if not 0 <= getattr(s, name) < math.inf
    ]
    if s.LEADER_HEARTBEAT * 2 > s.LEADER_LEASE:
        found.append("LEADER_HEARTBEAT must be at most half of LEADER_LEASE.")
    if s.NODE_HEARTBEAT * 2 > s.NODE_LEASE:
        found.append("NODE_HEARTBEAT must be at most half of NODE_LEASE.")
    if not 3 * s.LEADER_LEASE <= s.MISFIRE_GRACE < math.inf:
        found.append(
            "MISFIRE_GRACE must be at least 3 times LEADER_LEASE, or a change of leader"
            " would turn slots into misfires; and it must not be infinite."
        )
    if s.RETENTION_DAYS > LONGEST_RETENTION_DAYS:
        found.append(f"RETENTION_DAYS must be at most {LONGEST_RETENTION_DAYS}, a hundred years.")
    found += [
        f"QUEUE_QUOTAS must give {queue!r} a number larger than 0."
        for queue, quota in s.QUEUE_QUOTAS.items()
        if quota <= 0
    ]
    if "" in s.QUEUE_QUOTAS:
        found.append("QUEUE_QUOTAS must name the queue of each quota; '*' means all others.")
    if s.NAMESPACE == "" or len(s.NAMESPACE) > 64 or set(s.NAMESPACE) & set("{}* \t\r\n"):
        found.append("NAMESPACE must be 1 to 64 characters without spaces, braces or '*'.")
    if not django_settings.USE_TZ:
        found.append(
            "USE_TZ must be True: sync_scheduler stores instants, and without it Django stores"
            " local times, of which an hour comes twice a year."
        )
    if s.DATABASE not in django_settings.DATABASES:
        found.append(f"DATABASE names {s.DATABASE!r}, which is not in DATABASES.")
    else:
        found += _database_faults(s.DATABASE)
    if s.REDIS_URL is not None and s.REDIS_URL.split("://", 1)[0] not in REDIS_SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in REDIS_SCHEMES)
        found.append(f"REDIS_URL must begin with one of {schemes}.")
    return found


def _database_faults(alias: str) -> list[str]:
    found = []
    connection = connections[alias]
    zone = connection.settings_dict.get("TIME_ZONE") or "UTC"
    if not connection.features.supports_timezones and zone not in {"UTC", "Etc/UTC"}:
        found.append(
            f"DATABASES[{alias!r}]['TIME_ZONE'] must be left out or 'UTC': with {zone!r} Django"
            " stores local times in this database, of which an hour comes twice a year."
        )
    if not connection.settings_dict.get("AUTOCOMMIT", True):
        found.append(
            f"DATABASES[{alias!r}]['AUTOCOMMIT'] must be True: without it nothing that the"
            " scheduler writes would ever be committed."
        )
    return found


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"SYNC_SCHEDULER", "DATABASES", "USE_TZ"}:
        _read.cache_clear()


setting_changed.connect(_forget, dispatch_uid="sync_scheduler.conf")
