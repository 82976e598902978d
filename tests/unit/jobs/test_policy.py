"""Back-off, limits, and what a job is declared with."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from sync_scheduler import (
    InvalidInput,
    JobContext,
    UnknownJob,
    cron,
    exponential,
    fixed,
    job,
)
from sync_scheduler.errors import InvalidJob
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.limits import parse_rate


@pytest.fixture(autouse=True)
def _own_jobs() -> Iterator[None]:
    """Whatever a test declares is forgotten afterwards."""
    before = {one.name for one in registry.all_jobs()}
    yield
    for one in registry.all_jobs():
        if one.name not in before:
            registry.remove(one.name)


def test_an_exponential_pause_grows_to_its_maximum() -> None:
    # B6
    backoff = exponential(base=1, factor=2, maximum=10, jitter=False)
    assert [backoff.delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize("attempt", [1, 2, 7, 1000, 10**9])
def test_jitter_stays_between_nothing_and_the_pause(attempt: int) -> None:
    # B6
    backoff = exponential(base=2, factor=3, maximum=300)
    longest = min(2 * 3.0 ** min(attempt - 1, 20), 300)
    pauses = [backoff.delay(attempt) for _ in range(200)]
    assert all(0 <= pause <= longest for pause in pauses)
    assert len(set(pauses)) > 100


def test_a_steep_factor_ends_at_the_maximum() -> None:
    # B6
    assert exponential(base=1, factor=1e300, maximum=60, jitter=False).delay(50) == 60


def test_a_fixed_pause_is_fixed() -> None:
    # B6
    assert {fixed(10).delay(attempt) for attempt in range(1, 50)} == {10}


@pytest.mark.parametrize(
    "make",
    [
        lambda: fixed(-1),
        lambda: fixed(math.nan),
        lambda: exponential(base=-1),
        lambda: exponential(factor=0.5),
        lambda: exponential(maximum=math.inf),
        lambda: exponential(base=math.nan),
        lambda: fixed("10"),  # type: ignore[arg-type]
        lambda: fixed(dt.timedelta(seconds=5)),  # type: ignore[arg-type]
        lambda: fixed(True),
        lambda: exponential(base="1"),  # type: ignore[arg-type]
        lambda: exponential(maximum=None),  # type: ignore[arg-type]
    ],
)
def test_a_senseless_pause_is_refused(make: Callable[[], object]) -> None:
    # B6
    with pytest.raises(InvalidJob):
        make()


def test_a_rate_is_read() -> None:
    # B15
    assert (parse_rate("100/m").count, parse_rate("100/m").seconds) == (100, 60)
    assert parse_rate(" 5 / s ").seconds == 1
    assert parse_rate("1/d").seconds == 86_400


@pytest.mark.parametrize("text", ["", "100", "0/m", "-1/s", "5/w", "1.5/s", "5/s/s"])
def test_a_rate_that_says_nothing_is_refused(text: str) -> None:
    # B15
    with pytest.raises(InvalidJob, match="must look like"):
        parse_rate(text)


def _nothing() -> None: ...


async def _soon() -> None: ...


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", "\ud800", 5, None])
def test_a_step_that_could_not_be_remembered_is_refused_before_it_is_done(name: Any) -> None:
    # B4
    done: list[int] = []

    @job(name="tests.unit.steps")
    def stepping(ctx: JobContext) -> None:
        ctx.step(name, done.append, 1)

    with pytest.raises(ValueError, match="1 to 200 characters"):
        stepping()
    assert done == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"lease": -1}, "lease"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency_key": "tenant"}, "concurrency_key needs concurrency or rate_limit"),
        ({"priority": "high"}, "priority must be a whole number, not str"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number, not str"),
        ({"max_attempts": None}, "max_attempts must be a whole number, not NoneType"),
        ({"timeout": "60"}, "timeout must be a number of seconds, not str"),
        ({"lease": dt.timedelta(seconds=5)}, "lease must be a number of seconds, not timedelta"),
        ({"backoff": 5}, "backoff must be fixed(...) or exponential(...), not int"),
        ({"concurrency": "2"}, "concurrency must be a whole number, not str"),
        ({"rate_limit": 5}, "rate_limit 5 must look like"),
        ({"retention": 7}, "retention must be a timedelta, not int"),
        ({"aliases": "old.name"}, "aliases must be a list of names; write ('old.name',)"),
        ({"sensitive": "card"}, "sensitive must be a list of names; write ('card',)"),
        ({"schedule": "0 6 * * *"}, "schedule must be made by cron(), every() or once()"),
        ({"schedule": ["0 6 * * *"]}, "schedule must be made by cron(), every() or once()"),
        ({"max_attempts": 2**31}, "max_attempts must be at least 1, and fit into 32 bits"),
        ({"timeout": True}, "timeout must be a number of seconds, not bool"),
        ({"lease": True}, "lease must be a number of seconds, not bool"),
        ({"backoff": 0}, "backoff must be fixed(...) or exponential(...), not int"),
        ({"backoff": False}, "backoff must be fixed(...) or exponential(...), not bool"),
        ({"atomic": "no"}, "atomic must be True or False, not str"),
        ({"atomic": None}, "atomic must be True or False, not NoneType"),
        ({"retention": dt.timedelta(days=-1)}, "retention must be 0 to 36525 days"),
        ({"retention": dt.timedelta.max}, "retention must be 0 to 36525 days"),
        ({"name": 5}, "its name must be 1 to 200 printable characters"),
        ({"name": ""}, "its name must be 1 to 200 printable characters"),
        ({"name": b"x"}, "its name must be 1 to 200 printable characters"),
        ({"aliases": 5}, "aliases must be a list of names, not 5"),
        ({"aliases": (5,)}, "aliases must be a list of names, not (5,)"),
        ({"aliases": None}, "aliases must be a list of names, not None"),
        ({"aliases": ("",)}, "an alias must be 1 to 200 printable characters"),
        ({"aliases": ("x" * 201,)}, "an alias must be 1 to 200 printable characters"),
        ({"sensitive": (5,)}, "sensitive must be a list of names, not (5,)"),
        ({"sensitive": None}, "sensitive must be a list of names, not None"),
        ({"queue": ""}, "queue"),
        ({"queue": "a\nb"}, "queue"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"sensitive": ("card",)}, "sensitive names 'card'"),
        (
            {"concurrency": 1, "concurrency_key": "tennant"},
            "concurrency_key names 'tennant', which it does not take",
        ),
        ({"schedule": [cron("* * * * *"), cron("0 * * * *")]}, "its own name="),
    ],
)
def test_a_policy_that_cannot_work_is_refused_in_words(options: dict[str, Any], words: str) -> None:
    # B15
    with pytest.raises(InvalidJob) as caught:
        job(**{"name": "tests.unit.bad", **options})(_nothing)
    assert words in str(caught.value)
    assert registry.find("tests.unit.bad") is None


class _Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "what", ["billing.send", 5, _Callable, _Callable(), functools.partial(_nothing), len]
)
def test_what_is_no_function_is_refused_in_words(what: Any) -> None:
    # B1: a name that is given without saying so, for one
    with pytest.raises(InvalidJob, match="@job stands above a function"):
        job(what)
    with pytest.raises(InvalidJob, match="@job stands above a function"):
        job(name="tests.unit.bad")(what)
    assert registry.find("tests.unit.bad") is None


def test_an_async_handler_cannot_be_atomic_and_the_reason_is_said() -> None:
    # B16; W8
    with pytest.raises(InvalidJob, match="cannot be held across an await"):
        job(name="tests.unit.both", atomic=True)(_soon)


def test_the_name_of_a_job_is_its_place_unless_it_is_given() -> None:
    # A16
    declared = job(_nothing)
    assert declared.name == f"{__name__}._nothing"
    assert registry.get(declared.name) is declared


def test_a_name_is_taken_by_one_function_only() -> None:
    # B1
    @job(name="tests.unit.taken")
    def one() -> None: ...

    with pytest.raises(InvalidJob, match=r"'tests.unit.taken' is taken by .*one"):

        @job(name="tests.unit.taken")
        def other() -> None: ...

    with pytest.raises(InvalidJob, match="is taken"):

        @job(name="tests.unit.other", aliases=("tests.unit.taken",))
        def third() -> None: ...

    assert registry.get("tests.unit.taken") is one


def test_a_module_that_is_loaded_again_declares_its_jobs_again() -> None:
    # B1
    def declare() -> Any:
        @job(name="tests.unit.again")
        def again() -> None: ...

        return again

    declare()
    second = declare()
    assert registry.get("tests.unit.again") is second


def test_former_names_still_find_the_job() -> None:
    # B1
    @job(name="tests.unit.new", aliases=("tests.unit.old",))
    def new() -> None: ...

    assert registry.get("tests.unit.old") is new
    assert {"tests.unit.new", "tests.unit.old"} <= registry.known_names()


def test_nothing_is_ever_imported_by_name() -> None:
    # B1
    with pytest.raises(UnknownJob, match=r"declare it with @job"):
        registry.get("os.system")


def test_calling_a_job_runs_its_function_here() -> None:
    # B1
    seen = []

    @job(name="tests.unit.called")
    def called(ctx: JobContext, name: str) -> str:
        """Says something."""
        seen.append((ctx.run, ctx.attempt, ctx.cancelled))
        ctx.heartbeat(progress=0.5)
        ctx.raise_if_cancelled()
        return ctx.step("first", str.upper, name)

    assert called("a") == "A"
    assert called(name="b") == "B"
    assert seen == [(None, 1, False)] * 2
    assert called.__doc__ == "Says something."


def test_calling_an_async_job_gives_something_to_await() -> None:
    # B1
    @job(name="tests.unit.acalled")
    async def acalled(ctx: JobContext, name: str) -> str:
        return await ctx.astep("first", str.upper, name)

    assert asyncio.run(acalled(name="a")) == "A"


def test_a_step_cannot_stand_twice_in_one_run() -> None:
    # B4; W27
    @job(name="tests.unit.twice")
    def twice(ctx: JobContext) -> None:
        ctx.step("one", int)
        ctx.step("one", int)

    with pytest.raises(ValueError, match="stands twice"):
        twice()


@pytest.mark.parametrize("progress", [-0.1, 1.1, math.nan])
def test_progress_lies_between_nothing_and_everything(progress: float) -> None:
    # B4
    @job(name="tests.unit.progress")
    def reporting(ctx: JobContext) -> None:
        ctx.heartbeat(progress=progress)

    with pytest.raises(ValueError, match="between 0 and 1"):
        reporting()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delay": 1, "at": dt.datetime(2030, 1, 1, tzinfo=dt.UTC)}, "not both"),
        ({"at": dt.datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"delay": math.nan}, "delay"),
        ({"delay": 1e30}, "delay"),
        ({"key": ""}, "key"),
        ({"key": "x" * 256}, "key"),
        ({"key": "a\0b"}, "key"),
        ({"key": "\ud800"}, "key"),
        ({"priority": 1000}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": -5}, "timeout"),
        ({"timeout": math.inf}, "timeout"),
        ({"queue": ""}, "queue"),
        ({"queue": "a\0"}, "queue"),
        ({"max_attempts": 2**31}, "max_attempts"),
        ({"delay": dt.timedelta(days=10**8)}, "delay"),
        ({"at": dt.datetime.max.replace(tzinfo=dt.UTC)}, "at must lie in the years"),
        ({"key": 5}, "key must be a text, not int"),
        ({"at": dt.date(2030, 1, 1)}, "at must be a datetime, not date"),
        ({"priority": 1.0}, "priority must be a whole number, not float"),
        ({"priority": True}, "priority must be a whole number, not bool"),
        ({"queue": 5}, "queue must be a text, not int"),
        ({"max_attempts": 2.5}, "max_attempts must be a whole number, not float"),
        ({"timeout": dt.timedelta(seconds=5)}, "timeout must be a number of seconds"),
        ({"meta": ["a"]}, "meta must be a dictionary, not list"),
        ({"delay": "5"}, "delay must be a number of seconds, or a timedelta, not str"),
        ({"at": "2030-01-01"}, "at must be a datetime, not str"),
        ({"priority": "high"}, "priority must be a whole number, not str"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number, not str"),
        ({"key": 7, "meta": 7}, "key must be a text, not int; meta must be a dictionary, not int"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_stored(
    options: dict[str, Any], words: str
) -> None:
    # B3
    declared = job(name="tests.unit.options")(_nothing)
    with pytest.raises(InvalidInput) as caught:
        declared.using(**options)
    assert words in str(caught.value)


def test_a_function_that_yields_is_refused() -> None:
    # B1: its call would do nothing, and the Run would look completed
    def plain() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    for function in (plain, asynchronous):
        with pytest.raises(InvalidJob, match="yields"):
            job(name="unit.yields")(function)


def test_what_is_no_dictionary_of_arguments_is_refused_by_its_place() -> None:
    # B3
    declared = job(name="tests.unit.many")(_nothing)
    wrong: Any = [{}, "eu"]
    with pytest.raises(InvalidInput, match="input 1 must be a dictionary of arguments, not str"):
        declared.submit_many(wrong)


def test_a_rate_limit_may_be_counted_for_each_value_of_an_input() -> None:
    # B15
    @job(name="tests.unit.rated", rate_limit="10/m", concurrency_key="tenant")
    def rated(tenant: str) -> None: ...

    assert rated.policy.is_limited
    assert rated.concurrency_value({"tenant": "acme"}) == "acme"
