"""Jobs of every kind, for tests that run real workers.

What really started is kept in an append-only file (one write per line, so that lines of several
processes never mix); effects in the database are kept as rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import datetime as dt
import fcntl
import functools
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone, translation

from sync_scheduler import Cancel, JobContext, Retry, exponential, fixed, job
from tests.testapp.models import Counter, Effect


def note(text: str) -> None:
    """Append a line to the file that LEDGER_FILE names."""
    path = os.environ.get("LEDGER_FILE")
    if path:
        if text.startswith("start "):
            text = f"{text} {os.getpid()} {time.time():.3f}"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(fd, f"{text}\n".encode())
        finally:
            os.close(fd)


@job(name="tests.noop")
def noop() -> None:
    return None


@job(name="tests.add")
def add(a: int, b: int) -> int:
    return a + b


@job(name="tests.mark")
def mark(ctx: JobContext, name: str) -> None:
    note(f"start {name} {ctx.id} {ctx.attempt}")
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)


@job(name="tests.fail", max_attempts=3, backoff=fixed(0))
def fail(ctx: JobContext, text: str = "no such order") -> None:
    note(f"start fail {ctx.id} {ctx.attempt}")
    raise ValueError(text)


@job(name="tests.fail_until", max_attempts=5, backoff=fixed(0))
def fail_until(ctx: JobContext, attempt: int) -> int:
    if ctx.attempt < attempt:
        raise RuntimeError(f"attempt {ctx.attempt} is not enough")
    return ctx.attempt


@job(name="tests.ask_for_retry", max_attempts=3)
def ask_for_retry(ctx: JobContext) -> int:
    if ctx.attempt < 2:
        raise Retry(delay=0, reason="not yet")
    return ctx.attempt


@job(name="tests.cancel_itself")
def cancel_itself() -> None:
    raise Cancel("nothing to do")


@job(name="tests.wait")
def wait(ctx: JobContext, seconds: float = 60.0) -> str:
    """Waits in small steps until told to stop."""
    note(f"start wait {ctx.id} {ctx.attempt}")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ctx.cancelled:
            note(f"cancelled wait {ctx.id} {ctx.attempt}")
            ctx.raise_if_cancelled()
        time.sleep(0.02)
    return "waited"


@job(name="tests.wait_async")
async def wait_async(ctx: JobContext, seconds: float = 60.0) -> str:
    note(f"start wait_async {ctx.id} {ctx.attempt}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(f"cancelled wait_async {ctx.id} {ctx.attempt}")
        raise
    return "waited"


@job(name="tests.until_file")
def until_file(ctx: JobContext, path: str) -> str:
    """Runs until a file appears; what a test uses to decide when a handler ends."""
    note(f"start until_file {ctx.id} {ctx.attempt}")
    while not Path(path).exists():
        time.sleep(0.01)
    return "seen"


@job(name="tests.steps", max_attempts=2, backoff=fixed(0))
def steps(ctx: JobContext) -> list[int]:
    first = ctx.step("first", _noted, "first", 1)
    if ctx.attempt == 1:
        raise RuntimeError("between the steps")
    second = ctx.step("second", _noted, "second", 2)
    return [first, second]


def _noted(name: str, value: int) -> int:
    note(f"step {name}")
    return value


@job(name="tests.progress")
def progress(ctx: JobContext) -> None:
    ctx.heartbeat(progress=0.25, message="a quarter")
    ctx.heartbeat(progress=1.0, message="all of it")


@job(name="tests.atomic_count", atomic=True)
def atomic_count(ctx: JobContext, name: str) -> None:
    Counter.objects.filter(name=name).update(value=F("value") + 1)
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)


@job(name="tests.atomic_fail", atomic=True)
def atomic_fail(ctx: JobContext, name: str) -> None:
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    raise RuntimeError("after the write")


@job(name="tests.atomic_cancel_own", atomic=True)
def atomic_cancel_own(ctx: JobContext) -> None:
    note(f"start atomic_cancel_own {ctx.id} {ctx.attempt}")
    assert ctx.run is not None
    ctx.run.cancel()


@job(name="tests.crash")
def crash(ctx: JobContext, how: str) -> None:
    note(f"start crash-{how} {ctx.id} {ctx.attempt}")
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    raise ValueError(how)


@job(name="tests.loop", timeout=0.5)
def loop(ctx: JobContext) -> None:
    note(f"start loop {ctx.id} {ctx.attempt}")
    while True:
        pass


@job(name="tests.sleep_hard", timeout=0.5)
def sleep_hard(ctx: JobContext) -> None:
    """Blocks where no exception can reach it."""
    note(f"start sleep_hard {ctx.id} {ctx.attempt}")
    time.sleep(60)


@job(name="tests.limited", concurrency=2)
def limited(ctx: JobContext, path: str) -> None:
    note(f"start limited {ctx.id} {ctx.attempt}")
    while not Path(path).exists():
        time.sleep(0.01)
    note(f"end limited {ctx.id} {ctx.attempt}")


@job(name="tests.chain")
def chain() -> None:
    chain.submit()


@job(name="tests.echo", sensitive=("secret",))
def echo(value: Any = None, secret: str = "") -> Any:
    return value


@job(name="tests.renamed", aliases=("tests.former",))
def renamed() -> str:
    return "by its new name"


@job(name="tests.hold_gil")
def hold_gil(ctx: JobContext, seconds: int) -> str:
    """Sleeps in C code that keeps the interpreter's lock: no thread of this process moves."""
    note(f"start hold_gil {ctx.id} {ctx.attempt}")
    ctypes.PyDLL(None).sleep(seconds)
    return "let go"


@job(name="tests.hold_gil_too_long", timeout=0.5)
def hold_gil_too_long(ctx: JobContext) -> None:
    """One call that returns to Python only after a minute."""
    note(f"start hold_gil_too_long {ctx.id} {ctx.attempt}")
    ctypes.PyDLL(None).sleep(60)


@job(name="tests.eat_memory")
def eat_memory(ctx: JobContext) -> None:
    note(f"start eat_memory {ctx.id} {ctx.attempt}")
    eaten = []
    while True:
        eaten.append(bytearray(8 << 20))
        time.sleep(0.005)


@job(name="tests.heavy")
def heavy(data: str, size: int) -> str:
    """As much in and out as is allowed."""
    return "x" * size


@job(name="tests.odd", max_attempts=2, backoff=fixed(0))
def odd(ctx: JobContext, what: str) -> Any:
    """Raises or returns what no well-behaved handler would."""
    if ctx.attempt > 1:
        return "again"
    values: dict[str, Any] = {
        "timedelta": Retry(delay=dt.timedelta(0)),  # type: ignore[arg-type]
        "nan": Retry(delay=float("nan")),
        "text": Retry(delay="soon"),  # type: ignore[arg-type]
        "reason": Retry(delay=0, reason=17),  # type: ignore[arg-type]
        "nul": ValueError("a \0 b \ud800"),
        "empty": ValueError(),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "unspeakable": Unspeakable(),
        "half_made": HalfMade(),
    }
    raise values[what]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class HalfMade(Retry):
    def __init__(self) -> None:
        Exception.__init__(self)


@job(name="tests.odd_result")
def odd_result(what: str) -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return {
        "object": object(),
        "nan": float("nan"),
        "nul": "a\0b",
        "huge": "x" * 1_000_000,
        "loop": loop,
        "bytes": b"raw",
        "surrogate": "\ud800",
    }[what]


@job(name="tests.atomic_wait", atomic=True)
def atomic_wait(ctx: JobContext, name: str, path: str) -> None:
    """Writes, then waits for a file before it ends."""
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    note(f"start atomic_wait {ctx.id} {ctx.attempt}")
    while not Path(path).exists():
        time.sleep(0.01)


@job(name="tests.atomic_roll_back", atomic=True)
def atomic_roll_back(ctx: JobContext, name: str) -> None:
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    transaction.set_rollback(True)


@job(name="tests.atomic_swallow", atomic=True)
def atomic_swallow(ctx: JobContext, name: str) -> None:
    """Breaks its transaction and goes on as if nothing had happened."""
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT no_such_column FROM no_such_table")
    connection.needs_rollback = True


@job(name="tests.atomic_steps", atomic=True, max_attempts=2, backoff=fixed(0))
def atomic_steps(ctx: JobContext, name: str) -> int:
    made: int = ctx.step("first", lambda: Effect.objects.create(name=name, run=ctx.id).pk)
    if ctx.attempt == 1:
        raise RuntimeError("after the step")
    return made


@job(name="tests.async_rows", max_attempts=3, backoff=fixed(0.2))
async def async_rows(ctx: JobContext, name: str) -> int:
    await ctx.astep("first", _anoted, "first", 1)
    await Effect.objects.acreate(name=name, run=ctx.id, attempt=ctx.attempt)
    return await Effect.objects.filter(name=name).acount()


@job(name="tests.async_tidy_up")
async def async_tidy_up(ctx: JobContext, path: str) -> None:
    """Needs a while to leave: it tidies up until a file appears."""
    try:
        note(f"start async_tidy_up {ctx.id} {ctx.attempt}")
        await asyncio.sleep(60)
    finally:
        note(f"tidying {ctx.id}")
        try:
            while not Path(path).exists():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            note(f"disturbed {ctx.id}")
            raise
        note(f"tidy {ctx.id}")


@job(name="tests.async_cancel_own_task", timeout=60)
async def async_cancel_own_task() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel("by its own hand")
    await task


def _plainly(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that knows nothing of async functions."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call


def _to_the_end(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that makes a plain function of an async one."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(func(*args, **kwargs))

    return call


@job(name="tests.async_wrapped")
@_plainly
async def async_wrapped(ctx: JobContext, name: str) -> list[str]:
    assert ctx.run is not None
    await Effect.objects.acreate(name=name, run=ctx.id, attempt=ctx.attempt)
    return [name, str(ctx.run.id)]


@job(name="tests.async_wrapped_wait")
@_plainly
async def async_wrapped_wait(ctx: JobContext) -> None:
    note(f"start async_wrapped_wait {ctx.id} {ctx.attempt}")
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)
        note(f"tidy {ctx.id}")


@job(name="tests.async_run_plainly")
@_to_the_end
async def async_run_plainly(value: int) -> int:
    await asyncio.sleep(0)
    return value


@job(name="tests.forget_to_await")
def forget_to_await() -> Any:
    return _anoted("forgotten", 1)


@job(name="tests.async_forget_to_await")
async def async_forget_to_await(kind: str) -> Any:
    coroutine = _anoted("forgotten", 1)
    return coroutine if kind == "coroutine" else asyncio.create_task(coroutine)


@job(name="tests.atomic_forget_to_await", atomic=True)
def atomic_forget_to_await(ctx: JobContext, name: str) -> Any:
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    return _anoted("forgotten", 1)


@job(name="tests.async_own_run")
async def async_own_run(ctx: JobContext) -> list[Any]:
    """Reads its own row, as a plain handler does."""
    found = [ctx.run, ctx.run]
    return [one and [str(one.id), one.status] for one in found]


async def _anoted(name: str, value: int) -> int:
    note(f"step {name}")
    return value


@job(name="tests.rate", rate_limit="5/s")
def rate(ctx: JobContext) -> None:
    note(f"start rate {ctx.id} {ctx.attempt}")


@job(name="tests.per_tenant", concurrency=1, concurrency_key="tenant")
def per_tenant(ctx: JobContext, tenant: str, path: str) -> None:
    note(f"start per_tenant-{tenant} {ctx.id} {ctx.attempt}")
    while not Path(path).exists():
        time.sleep(0.01)


@job(name="tests.noted")
def noted(ctx: JobContext, name: str = "") -> None:
    note(f"start noted-{name} {ctx.id} {ctx.attempt}")


def _tenant_of(stored: dict[str, Any]) -> str:
    raise LookupError("no such tenant")


@job(name="tests.picky", concurrency=1, concurrency_key=_tenant_of)
def picky() -> None:
    """Cannot even be dispatched: the function that finds its key raises."""


@job(name="tests.alone", max_attempts=3, backoff=fixed(0.1))
def alone(ctx: JobContext, path: str, seconds: float = 0.2) -> None:
    """Says when another one holds the same file; the kernel lets go of it when a process dies."""
    name = Path(path).name
    with Path(path).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"overlap {name} {ctx.id} {ctx.attempt}")
        note(f"start alone-{name} {ctx.id} {ctx.attempt}")
        time.sleep(seconds)
        if int(str(ctx.id)[-1], 16) % 4 == 0:
            raise RuntimeError("one in four fails")


@job(
    name="tests.fail_again",
    max_attempts=4,
    backoff=exponential(base=0.2, factor=2, maximum=0.5, jitter=True),
)
def fail_again(ctx: JobContext) -> None:
    note(f"start fail_again {ctx.id} {ctx.attempt}")
    raise ValueError("as always")


@job(name="tests.slot_effect", atomic=True)
def slot_effect(ctx: JobContext, name: str) -> None:
    """One effect per slot; the ledger's label says which, for when the Run is long pruned."""
    at = "none" if ctx.slot is None else ctx.slot.strftime("%Y%m%dT%H%M%S")
    note(f"start {name}@{at} {ctx.id} {ctx.attempt}")
    Effect.objects.create(name=f"{name}@{at}", run=ctx.id, attempt=ctx.attempt)


@job(name="tests.atomic_hang_up", atomic=True)
def atomic_hang_up(ctx: JobContext, name: str) -> None:
    """Closes the connection under its own transaction."""
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    connection.close()


@job(name="tests.atomic_durable", atomic=True)
def atomic_durable(ctx: JobContext, name: str) -> None:
    """Wants a commit of its own inside the Run's transaction."""
    with transaction.atomic(durable=True):
        Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)


@job(name="tests.stubborn", atomic=True, max_attempts=100, backoff=fixed(0.05))
def stubborn(ctx: JobContext, name: str) -> None:
    """Has its effect in the end, however often the network is against it."""
    note(f"start stubborn {ctx.id} {ctx.attempt}")
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)


@job(name="tests.confide", max_attempts=2, backoff=fixed(0), sensitive=("secret",))
def confide(ctx: JobContext, secret: str) -> dict[str, str]:
    """Its secret goes through the input, a step that a later attempt reads, and the result."""
    kept = ctx.step("keep", lambda: f"kept {secret}")
    if ctx.attempt == 1:
        raise RuntimeError("once more")
    return {"told": kept}


@job(name="tests.atomic_confide", atomic=True)
def atomic_confide(secret: str) -> str:
    return f"told {secret}"


@job(name="tests.bomb")
def bomb() -> None:
    """Submits two of itself."""
    for _ in range(2):
        bomb.using(queue="bombs").submit()


def _sleeping_copy() -> multiprocessing.process.BaseProcess:
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    copy.start()
    return copy


@job(name="tests.end_process")
def end_process(what: str) -> int | None:
    """Starts a process that would take a minute, and ends it as anybody would."""
    if what == "copy":
        copy = _sleeping_copy()
        copy.terminate()
        copy.join()
        return copy.exitcode
    with subprocess.Popen(["sleep", "60"]) as program:
        program.terminate()
        return program.wait()


@job(name="tests.leave_process")
def leave_process(ctx: JobContext, what: str) -> str:
    """Dies and leaves a process behind, which lives for a minute; the second time all is well."""
    note(f"start leave_process {ctx.id} {ctx.attempt}")
    if ctx.attempt > 1:
        return "again"
    if what == "copy":
        _sleeping_copy()
    else:
        os.system("sleep 60 &")
    os._exit(3)


@job(name="tests.fork", atomic=True)
def fork(ctx: JobContext, how: str, name: str) -> int:
    """A copy of the process leaves the handler before the handler itself does."""
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)
    copy = os.fork()
    if copy:
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if how == "return":
        return -1
    if how == "exit":
        sys.exit(5)
    raise ValueError("in the copy")


@job(name="tests.async_break_loop")
async def async_break_loop(how: str) -> None:
    """Stops the event loop that others are in."""
    if how == "stop":
        asyncio.get_running_loop().stop()
    else:
        await asyncio.gather(_exit())


async def _exit() -> None:
    sys.exit(3)


@job(name="tests.leave_open")
def leave_open(ctx: JobContext, name: str, how: str) -> None:
    """Ends with a transaction open."""
    if how == "atomic":
        transaction.atomic().__enter__()
    elif how == "autocommit":
        transaction.set_autocommit(False)
    else:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
    Effect.objects.create(name=name, run=ctx.id, attempt=ctx.attempt)


@job(name="tests.say")
def say(text: str) -> None:
    print(text)  # noqa: T201  # that is what it is for


@job(name="tests.speak")
def speak() -> list[str | None]:
    """Which language and time zone it finds; sets others, and leaves them."""
    found: list[str | None] = [translation.get_language(), timezone.get_current_timezone_name()]
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    return found


@job(name="tests.close_descriptors")
def close_descriptors(ctx: JobContext) -> None:
    """What daemons do when they begin."""
    note(f"start close_descriptors {ctx.id} {ctx.attempt}")
    os.closerange(3, 256)
