"""Options of a wrong type, said in words and all at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from sync_scheduler.jobs.backoff import Backoff

# What an option may be, and how that is called.
Kinds = Mapping[str, tuple[tuple[Any, ...], str]]

_NONE = type(None)
_NUMBER = (int, float, _NONE)

POLICY: Kinds = {
    "queue": ((str,), "a text"),
    "priority": ((int,), "a whole number"),
    "max_attempts": ((int,), "a whole number"),
    "backoff": ((Backoff,), "fixed(...) or exponential(...)"),
    "timeout": (_NUMBER, "a number of seconds"),
    "lease": (_NUMBER, "a number of seconds"),
    "atomic": ((bool,), "True or False"),
    "concurrency": ((int, _NONE), "a whole number"),
    "concurrency_key": ((str, Callable, _NONE), "a name or a function"),
    "retention": ((dt.timedelta, _NONE), "a timedelta"),
}
SUBMIT: Kinds = {
    "key": ((str, _NONE), "a text"),
    "delay": ((int, float, dt.timedelta, _NONE), "a number of seconds, or a timedelta"),
    "at": ((dt.datetime, _NONE), "a datetime"),
    "priority": ((int, _NONE), "a whole number"),
    "queue": ((str, _NONE), "a text"),
    "max_attempts": ((int, _NONE), "a whole number"),
    "timeout": (_NUMBER, "a number of seconds"),
    "meta": ((Mapping, _NONE), "a dictionary"),
}


def faults(options: object, kinds: Kinds) -> list[str]:
    return [
        f"{name} must be {words}, not {type(value).__name__}"
        for name, (allowed, words) in kinds.items()
        # True is a whole number to Python, but not to every database.
        if not isinstance(value := getattr(options, name), allowed)
        or (isinstance(value, bool) and bool not in allowed)
    ]
