"""An `async def` behind a plain decorator: only the call shows that there is something to await.

Such a job goes to a thread, because its decorator may as well run the coroutine to its end. What
it returns instead is awaited in that thread, in an event loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Coroutine
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from sync_scheduler.errors import SchedulerError
from sync_scheduler.jobs.definition import Job
from sync_scheduler.work.backing import WorkerBacking


def settled(job: Job, value: Any, backing: WorkerBacking) -> Any:
    """What the handler's call has come to; a coroutine is awaited if it is the handler itself."""
    if not (inspect.iscoroutine(value) and job.wraps_async):
        return value
    with asyncio.Runner() as runner:
        return runner.run(_await(value, backing))


async def _await(coroutine: Coroutine[Any, Any, Any], backing: WorkerBacking) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  # this is one

    def stop() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(task.cancel)

    backing.stop = stop
    try:
        if backing.cancelled:  # before there was anything to stop
            task.cancel()
        await sync_to_async(close_old_connections)()
        return await coroutine
    finally:
        backing.stop = None
        coroutine.close()


def refuse_awaitable(value: Any) -> None:
    """A value that is still to be awaited means that the work has not been done."""
    if not inspect.isawaitable(value):
        return
    kind = type(value).__name__
    if inspect.iscoroutine(value):
        value.close()
    elif isinstance(value, asyncio.Future):
        value.cancel()
    raise SchedulerError(
        f"The handler returned a {kind} that nobody awaits; await it in the handler, and use"
        " functools.wraps in decorators around an async def."
    )
