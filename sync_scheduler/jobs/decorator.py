"""`@job`: how a function becomes a Job."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

from sync_scheduler.errors import InvalidJob
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.backoff import Backoff
from sync_scheduler.jobs.definition import DEFAULT_BACKOFF, Job, Policy
from sync_scheduler.jobs.limits import parse_rate
from sync_scheduler.timing.rules import Rule


@overload
def job(func: Callable[..., Any], /) -> Job: ...


@overload
def job(
    *,
    name: str | None = ...,
    queue: str = ...,
    priority: int = ...,
    max_attempts: int = ...,
    backoff: Backoff | None = ...,
    timeout: float | None = ...,
    lease: float | None = ...,
    atomic: bool = ...,
    concurrency: int | None = ...,
    concurrency_key: str | Callable[[dict[str, Any]], str] | None = ...,
    rate_limit: str | None = ...,
    retention: dt.timedelta | None = ...,
    aliases: Iterable[str] = ...,
    sensitive: Iterable[str] = ...,
    schedule: Rule | Sequence[Rule] | None = ...,
) -> Callable[[Callable[..., Any]], Job]: ...


def job(
    func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = "default",
    priority: int = 0,
    max_attempts: int = 1,
    backoff: Backoff | None = None,
    timeout: float | None = None,
    lease: float | None = None,
    atomic: bool = False,
    concurrency: int | None = None,
    concurrency_key: str | Callable[[dict[str, Any]], str] | None = None,
    rate_limit: str | None = None,
    retention: dt.timedelta | None = None,
    aliases: Iterable[str] = (),
    sensitive: Iterable[str] = (),
    schedule: Rule | Sequence[Rule] | None = None,
) -> Job | Callable[[Callable[..., Any]], Job]:
    """Declare a job: `@job` or `@job(max_attempts=3, ...)` above a function."""

    def declare(function: Callable[..., Any]) -> Job:
        if not hasattr(inspect.unwrap(function), "__code__"):
            raise InvalidJob(
                f"@job stands above a function, not {function!r};"
                " options are given by name, as in @job(name=...)."
            )
        label = name or f"{function.__module__}.{function.__qualname__}"
        policy = Policy(
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            backoff=DEFAULT_BACKOFF if backoff is None else backoff,
            timeout=_as_float(timeout),
            lease=_as_float(lease),
            atomic=atomic,
            concurrency=concurrency,
            concurrency_key=concurrency_key,
            rate_limit=None if rate_limit is None else parse_rate(rate_limit),
            retention=retention,
            sensitive=_names(label, "sensitive", sensitive),
        )
        former = _names(label, "aliases", aliases)
        declared = Job(function, name=name, policy=policy, aliases=former, schedule=schedule)
        registry.add(declared)
        return declared

    return declare if func is None else declare(func)


def _as_float(seconds: Any) -> Any:
    """A whole number as a float; what is no number is left to be refused in words."""
    is_whole = isinstance(seconds, int) and not isinstance(seconds, bool)
    return float(seconds) if is_whole else seconds


def _names(job: object, option: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str):  # its letters would be taken for names
        raise InvalidJob(f"Job {job!r}: {option} must be a list of names; write ({given!r},).")
    names = tuple(given) if isinstance(given, Iterable) else None
    if names is None or not all(isinstance(one, str) for one in names):
        raise InvalidJob(f"Job {job!r}: {option} must be a list of names, not {given!r}.")
    return names
