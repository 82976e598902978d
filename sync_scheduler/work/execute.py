"""Run one order: decode, call the handler, and say what happened as a value.

Whatever the handler raises is an outcome, never an error of the worker.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import math
import traceback as tracebacks
import uuid
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections, transaction

from sync_scheduler import clock, conf, failpoints
from sync_scheduler.errors import LeaseLost, PayloadCodecError, SchedulerError
from sync_scheduler.intake import ready
from sync_scheduler.jobs import ancestry, codec, payload, registry
from sync_scheduler.jobs.context import JobContext
from sync_scheduler.jobs.control import Cancel, Retry, TimeLimit
from sync_scheduler.jobs.definition import Job
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt
from sync_scheduler.store import claims
from sync_scheduler.store.locking import alias, connection
from sync_scheduler.store.outcomes import Ending, record
from sync_scheduler.work import awaiting
from sync_scheduler.work.backing import WorkerBacking, without_secrets
from sync_scheduler.work.copies import Original
from sync_scheduler.work.wire import Order, Report

logger = logging.getLogger(__name__)

_LONGEST_PAUSE = 366 * 86_400.0
# A transaction that is open for longer keeps PostgreSQL from cleaning up.
_LONG_TRANSACTION = 60.0


def execute(order: Order, backing: WorkerBacking) -> Report:
    """Run a plain handler here."""
    started = clock.unix_seconds()
    token = ancestry.current.set(ancestry.Ancestor(order.run, order.depth))
    try:
        job = registry.get(order.job)
        if job.policy.atomic:
            return _execute_atomic(job, order, backing, started)
        with Original():
            value = job.func(*_arguments(job, order, backing), **_input(job, order))
            value = awaiting.settled(job, value, backing)
        return _done(order, started, value)
    except asyncio.CancelledError as error:
        return outcome_of(order, started, _why_cancelled(error, backing))
    except LeaseLost as error:
        return outcome_of(order, started, _why_lost(error, order))
    except BaseException as error:  # noqa: BLE001  # a handler may raise anything
        return outcome_of(order, started, error)
    finally:
        ancestry.current.reset(token)
        backing.flush()


async def aexecute(order: Order, backing: WorkerBacking) -> Report:
    """Run an async handler in this loop."""
    started = clock.unix_seconds()
    ancestry.current.set(ancestry.Ancestor(order.run, order.depth))
    try:
        # What async handlers ask of the database runs in one thread, whose connection may have
        # died since the last of them.
        await sync_to_async(close_old_connections)()
        job = registry.get(order.job)
        arguments = _arguments(job, order, backing)
        with Original():
            value = await job.func(*arguments, **_input(job, order))
        return _done(order, started, value)
    except asyncio.CancelledError as error:
        return outcome_of(order, started, _why_cancelled(error, backing))
    except BaseException as error:  # noqa: BLE001
        return outcome_of(order, started, error)
    finally:
        backing.flush()


def _why_cancelled(error: asyncio.CancelledError, backing: WorkerBacking) -> BaseException:
    """What the parent said; if it said nothing, the handler awaited what it had cancelled."""
    if backing.cancelled:
        return Cancel("asked to stop")
    return TimeLimit() if backing.timed_out else error


def _why_lost(error: LeaseLost, order: Order) -> Exception:
    """A Run that is ours all the same was ended by its own handler, in what has been undone."""
    try:
        is_ours = claims.current(uuid.UUID(order.run), order.token) is not None
    except (DatabaseError, InterfaceError):
        return error
    if not is_ours:
        return error
    return SchedulerError(
        "The handler ended its own Run inside its transaction, which is undone with that;"
        " raise Cancel to end as cancelled."
    )


def _input(job: Job, order: Order) -> dict[str, Any]:
    return job.signature.decode(codec.unseal(order.input, "The input"))


def _arguments(job: Job, order: Order, backing: WorkerBacking) -> tuple[Any, ...]:
    if not job.signature.takes_context:
        return ()
    slot = None if order.slot is None else dt.datetime.fromisoformat(order.slot)
    return (
        JobContext(
            backing=backing,
            id=str(uuid.UUID(order.run)),
            attempt=order.attempt,
            slot=slot,
            trigger=order.trigger,
        ),
    )


def _done(order: Order, started: float, value: Any) -> Report:
    awaiting.refuse_awaitable(value)
    failpoints.hit("after_handler_before_complete")
    result, problem = None, ""
    if value is not None:
        result, problem = payload.storable_result(value, conf.get().MAX_RESULT_BYTES)
        try:
            # Here and not where it is written: there it would cost the whole batch.
            result = codec.seal(result)
        except PayloadCodecError as error:
            result, problem = None, f"Result not kept: {error}"
    return Report(
        run=order.run,
        token=order.token,
        kind="done",
        started=started,
        finished=clock.unix_seconds(),
        result=result,
        error=without_secrets(order, problem),
    )


def outcome_of(order: Order, started: float, error: BaseException) -> Report:
    """What an exception means for the Run."""
    kind, delay = "error", None
    if isinstance(error, Retry):
        kind, delay = "retry", _seconds(getattr(error, "delay", None))
    elif isinstance(error, Cancel):
        kind = "cancel"
    elif isinstance(error, TimeLimit):
        kind = "timeout"
    elif isinstance(error, LeaseLost):
        kind = "lost"
    text = payload.clean_text(without_secrets(order, describe(error)), 2000)
    trace = "" if kind in {"cancel", "lost"} else without_secrets(order, _trace(error))
    return Report(
        run=order.run,
        token=order.token,
        kind=kind,
        started=started,
        finished=clock.unix_seconds(),
        error=text,
        traceback=payload.clean_text(trace, conf.get().MAX_TRACEBACK_BYTES),
        delay=delay,
    )


def _seconds(delay: Any) -> float | None:
    """The pause that a handler asked for; None, the job's own back-off, if it makes no sense."""
    try:
        seconds = delay.total_seconds() if isinstance(delay, dt.timedelta) else float(delay)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), _LONGEST_PAUSE) if math.isfinite(seconds) else None


def describe(error: BaseException) -> str:
    """`ValueError: no such order`, whatever the exception's own text does."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # somebody's __str__
        text = "(its text cannot be shown)"
    if isinstance(error, Cancel | Retry):
        return str(getattr(error, "reason", "") or text)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _trace(error: BaseException) -> str:
    try:
        lines = tracebacks.format_exception(error)
    except Exception:  # noqa: BLE001
        lines = [type(error).__name__]
    return "".join(lines)


def _execute_atomic(job: Job, order: Order, backing: WorkerBacking, started: float) -> Report:
    """The handler's writes and the Run's completion, in one transaction or not at all."""
    after_commit: list[Callable[[], None]] = []
    with transaction.atomic(using=alias()):
        with Original():
            value = job.func(*_arguments(job, order, backing), **_input(job, order))
        if connection().needs_rollback:
            raise SchedulerError(
                "The handler rolled its transaction back without raising; nothing was kept."
            )
        report = _done(order, started, value)
        promoted = _complete(order, report)
        failpoints.hit("after_complete_before_commit")
        after_commit.append(lambda: ready.announce(promoted))
    for action in after_commit:
        action()
    if report.finished - started > _LONG_TRANSACTION:
        logger.warning(
            "the atomic job %s kept its transaction open for %.0f s; while it is, the database"
            " cannot clean up behind anybody. Cut long work into steps.",
            order.job,
            report.finished - started,
            extra={"event": "long_transaction", "run": order.run},
        )
    return Report(
        run=order.run,
        token=order.token,
        kind="stored",
        started=report.started,
        finished=report.finished,
    )


def _complete(order: Order, report: Report) -> Any:
    """The last statement of an atomic handler's transaction; zero rows undo everything."""
    facts = claims.current(uuid.UUID(order.run), order.token)
    if facts is None:
        raise LeaseLost
    ending = Ending(
        claim=facts,
        node=order.node,
        status=State.COMPLETED,
        outcome=Attempt.Outcome.COMPLETED,
        started_at=dt.datetime.fromtimestamp(report.started, dt.UTC),
        finished_at=dt.datetime.fromtimestamp(report.finished, dt.UTC),
        result=report.result,
        reason=report.error,
    )
    recorded = record([ending])
    if facts.id not in recorded.accepted:
        raise LeaseLost
    return recorded.promoted
