"""Job: a function and its policy, declared with `@job`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sync_scheduler import conf
from sync_scheduler.errors import InvalidInput, InvalidJob
from sync_scheduler.jobs import kinds, payload
from sync_scheduler.jobs.backoff import Backoff, exponential
from sync_scheduler.jobs.context import JobContext, NoBacking
from sync_scheduler.jobs.limits import RateLimit
from sync_scheduler.jobs.signature import Signature
from sync_scheduler.timing.rules import Rule

if TYPE_CHECKING:
    from sync_scheduler.models import Run

PRIORITIES = range(-100, 101)
DEFAULT_BACKOFF = exponential()
_LONGEST_DELAY = 1000 * 366 * 86_400.0
_MOST_ATTEMPTS = 2**31 - 1
_NO_TIME = dt.timedelta(0)
LONGEST_RETENTION = dt.timedelta(days=conf.LONGEST_RETENTION_DAYS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How runs of a job are treated."""

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 1
    backoff: Backoff = DEFAULT_BACKOFF
    timeout: float | None = None
    lease: float | None = None
    atomic: bool = False
    concurrency: int | None = None
    concurrency_key: str | Callable[[dict[str, Any]], str] | None = None
    rate_limit: RateLimit | None = None
    retention: dt.timedelta | None = None
    sensitive: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        """Whether its runs count against a limit of the whole cluster."""
        return self.concurrency is not None or self.rate_limit is not None

    def faults(self) -> list[str]:
        found = kinds.faults(self, kinds.POLICY)
        if found:
            return found
        if self.priority not in PRIORITIES:
            found.append("priority must lie between -100 and 100")
        if not 1 <= self.max_attempts <= _MOST_ATTEMPTS:
            found.append("max_attempts must be at least 1, and fit into 32 bits")
        if self.retention is not None and not _NO_TIME <= self.retention <= LONGEST_RETENTION:
            found.append(f"retention must be 0 to {LONGEST_RETENTION.days} days, or None")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            found.append("timeout must be larger than 0, or None")
        if self.lease is not None and not 0 < self.lease < math.inf:
            found.append("lease must be larger than 0, or None")
        if self.concurrency is not None and self.concurrency < 1:
            found.append("concurrency must be at least 1, or None")
        if self.concurrency_key is not None and not self.is_limited:
            found.append("concurrency_key needs concurrency or rate_limit")
        if not self.queue or len(self.queue) > 100 or not self.queue.isprintable():
            found.append("queue must be 1 to 100 printable characters")
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one submit asks for beyond the job's policy. None: as the job says."""

    key: str | None = None
    delay: float | dt.timedelta | None = None
    at: dt.datetime | None = None
    priority: int | None = None
    queue: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    meta: Mapping[str, Any] | None = None

    def faults(self) -> list[str]:
        return kinds.faults(self, kinds.SUBMIT) or self._wrong_values()

    def _wrong_values(self) -> list[str]:  # a line per option
        found = self._wrong_times()
        if self.key is not None and not 0 < len(self.key) <= 255:
            found.append("key must be 1 to 255 characters")
        if self.key is not None and not _is_storable(self.key):
            found.append("key must not contain NUL or half of a surrogate pair")
        if self.priority is not None and self.priority not in PRIORITIES:
            found.append("priority must lie between -100 and 100")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= _MOST_ATTEMPTS:
            found.append("max_attempts must be at least 1, and fit into 32 bits")
        if self.queue is not None and not (0 < len(self.queue) <= 100 and self.queue.isprintable()):
            found.append("queue must be 1 to 100 printable characters")
        return found

    def _wrong_times(self) -> list[str]:
        found = []
        delay, at = self.delay, self.at
        if delay is not None and at is not None:
            found.append("give delay or at, not both")
        seconds = delay.total_seconds() if isinstance(delay, dt.timedelta) else delay
        if seconds is not None and not abs(seconds) <= _LONGEST_DELAY:
            found.append("delay must be a number of seconds, of at most a thousand years")
        if at is not None and at.tzinfo is None:
            found.append("at must have a time zone")
        elif at is not None and not dt.MINYEAR < at.year < dt.MAXYEAR:
            found.append(f"at must lie in the years {dt.MINYEAR + 1} to {dt.MAXYEAR - 1}")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            found.append("timeout must be larger than 0")
        return found


def _is_storable(text: str) -> bool:
    return text == payload.clean_text(text, 4 * len(text))


class Job:
    """A declared job. Call it to run the function here; `submit` it to run it durably."""

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        policy: Policy,
        aliases: Iterable[str] = (),
        schedule: Rule | Sequence[Rule] | None = None,
    ) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.name = f"{func.__module__}.{func.__qualname__}" if name is None else name
        self.policy = policy
        self.aliases = tuple(aliases)
        self.is_async = inspect.iscoroutinefunction(func)
        innermost = inspect.unwrap(func)
        # A plain decorator around an `async def` may return the coroutine, or run it to its end.
        self.wraps_async = not self.is_async and inspect.iscoroutinefunction(innermost)
        code = innermost.__code__
        self.where = f"{func.__module__}.{func.__qualname__} (line {code.co_firstlineno})"
        self.signature = Signature(func, self.name, sensitive=policy.sensitive)
        self.schedules = tuple((rule.name or self.name, rule) for rule in self._rules(schedule))
        self._check()

    def _rules(self, schedule: Rule | Sequence[Rule] | None) -> Sequence[Rule]:
        rules = () if schedule is None else (schedule,) if isinstance(schedule, Rule) else schedule
        if not isinstance(rules, list | tuple) or not all(isinstance(one, Rule) for one in rules):
            raise InvalidJob(
                f"Job {self.name!r}: schedule must be made by cron(), every() or once(), or be a"
                " list of those."
            )
        return rules

    def _check(self) -> None:
        faults = self.policy.faults()
        named: list[tuple[str, Any]] = [("its name", self.name)]
        for what, name in (*named, *(("an alias", alias) for alias in self.aliases)):
            if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
                faults.append(f"{what} must be 1 to 200 printable characters")
        if self.is_async and self.policy.atomic:
            faults.append(
                "atomic=True needs a plain function, because a database transaction"
                " cannot be held across an await"
            )
        if inspect.isgeneratorfunction(self.func) or inspect.isasyncgenfunction(self.func):
            faults.append("its function yields, so that a call would not run it")
        names = [name for name, _ in self.schedules]
        if len(set(names)) < len(names):
            faults.append("each of its schedules needs its own name=")
        takes_any = any(p.kind is p.VAR_KEYWORD for p in self.signature.parameters)
        for secret in self.policy.sensitive:
            if secret not in self.signature.names and not takes_any:
                faults.append(f"sensitive names {secret!r}, which it does not take")
        key = self.policy.concurrency_key
        if isinstance(key, str) and key not in self.signature.names and not takes_any:
            faults.append(f"concurrency_key names {key!r}, which it does not take")
        if faults:
            raise InvalidJob(f"Job {self.name!r}: {'; '.join(faults)}.")

    def __repr__(self) -> str:
        return f"<Job {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now; nothing is stored."""
        is_given = "ctx" in kwargs or (args and isinstance(args[0], JobContext))
        if self.signature.takes_context and not is_given:
            args = (JobContext(backing=NoBacking()), *args)
        return self.func(*args, **kwargs)

    def using(
        self,
        *,
        key: str | None = None,
        delay: float | dt.timedelta | None = None,
        at: dt.datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        max_attempts: int | None = None,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Submission:
        """The same job with other options for what is submitted through the answer."""
        options = Options(
            key=key,
            delay=delay,
            at=at,
            priority=priority,
            queue=queue,
            max_attempts=max_attempts,
            timeout=timeout,
            meta=meta,
        )
        faults = options.faults()
        if faults:
            raise InvalidInput(f"Job {self.name!r}: {'; '.join(faults)}.")
        return Submission(job=self, options=options)

    def submit(self, *args: Any, **kwargs: Any) -> Run:
        """Store a Run in the caller's transaction; it starts after the commit."""
        return Submission(job=self).submit(*args, **kwargs)

    async def asubmit(self, *args: Any, **kwargs: Any) -> Run:
        return await Submission(job=self).asubmit(*args, **kwargs)

    def submit_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[Run]:
        """Store many Runs with one statement."""
        return Submission(job=self).submit_many(inputs)

    def concurrency_value(self, stored: dict[str, Any]) -> str:
        """What its Runs are counted by; what was not given is what the handler will get."""
        key = self.policy.concurrency_key
        if key is None:
            return ""
        given = {**self.signature.defaults, **stored}
        return str(key(given)) if callable(key) else str(given.get(key, ""))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job and the options of a submit."""

    job: Job
    options: Options = Options()

    def submit(self, *args: Any, **kwargs: Any) -> Run:
        from sync_scheduler.intake import runs

        return runs.submit(self.job, self.job.signature.encode(args, kwargs), self.options)

    async def asubmit(self, *args: Any, **kwargs: Any) -> Run:
        from sync_scheduler.intake import runs

        return await runs.asubmit(self.job, self.job.signature.encode(args, kwargs), self.options)

    def submit_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[Run]:
        from sync_scheduler.intake import runs

        encoded = []
        for number, one in enumerate(inputs):
            if not isinstance(one, Mapping):
                raise InvalidInput(
                    f"Job {self.job.name!r}: input {number} must be a dictionary of arguments,"
                    f" not {type(one).__name__}."
                )
            encoded.append(self.job.signature.encode((), one))
        return runs.submit_many(self.job, encoded, self.options)
