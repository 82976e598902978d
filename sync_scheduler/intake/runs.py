"""Submit, join, cancel and retry Runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from sync_scheduler import clock, conf, lifecycle, signals
from sync_scheduler.coordination import control, joins
from sync_scheduler.errors import InvalidInput, JoinTimeout, KeyConflict, SchedulerError
from sync_scheduler.intake import quotas
from sync_scheduler.intake.endings import tell_finished
from sync_scheduler.intake.gate import gate_of
from sync_scheduler.intake.ready import announce_on_commit
from sync_scheduler.jobs import ancestry, codec, payload, registry
from sync_scheduler.jobs.definition import Job, Options
from sync_scheduler.models import Run
from sync_scheduler.models.identity import fingerprint, uuid7, uuid7_many
from sync_scheduler.store import births, cancels, dead_letters

logger = logging.getLogger(__name__)

# A hook for the test kit: what becomes of a Run right after it was stored.
_after_submit: list[Callable[[Run], None]] = []


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a Run is born from, where that is not a plain submit."""

    trigger: lifecycle.Trigger = lifecycle.Trigger.SUBMIT
    schedule_id: int | None = None
    schedule_name: str = ""
    slot: dt.datetime | None = None
    guard: int | None = None
    retry_of: Any = None


SUBMITTED = Origin()


def row_values(job: Job, stored: dict[str, Any]) -> dict[str, Any]:
    """The columns of a Run that follow from its job's policy and its input."""
    policy = job.policy
    return {
        "job": job.name,
        "queue": policy.queue,
        "priority": policy.priority,
        "max_attempts": policy.max_attempts,
        "timeout_seconds": policy.timeout,
        "lease_seconds": policy.lease,
        "gate": gate_of(job, stored),
    }


def submit(job: Job, encoded: dict[str, Any], options: Options, origin: Origin = SUBMITTED) -> Run:
    """Store one Run in the caller's transaction; the same key gives the same Run."""
    stored = payload.normalise(encoded, "The input", conf.get().MAX_INPUT_BYTES)
    run = _new_run(job, stored, options, origin)
    # A backfill is part of a schedule's promise, and bounded by MAX_BACKFILL.
    if origin.trigger is not lifecycle.Trigger.BACKFILL:
        full = quotas.refusal(run.queue)
        if full is not None:
            if run.dedupe is not None and births.by_key(run.dedupe) is not None:
                return _existing(run)
            raise full
    if not births.insert(run):
        return _existing(run)
    announce_on_commit([run])
    _tell(run)
    return run


async def asubmit(job: Job, encoded: dict[str, Any], options: Options) -> Run:
    return await sync_to_async(submit, thread_sensitive=True)(job, encoded, options)


def submit_many(job: Job, inputs: Sequence[dict[str, Any]], options: Options) -> list[Run]:
    """Store many Runs of one job; all or none."""
    if options.key is not None:
        raise InvalidInput("submit_many() takes no key; submit keyed Runs one by one.")
    limit = conf.get().MAX_INPUT_BYTES
    clean = [payload.encode(one, f"Input {i}", limit) for i, one in enumerate(inputs)]
    if not clean:
        return []
    # The first of them, because a key of the limit may be read from any input, but not from none.
    template = _new_run(job, clean[0][0], options, SUBMITTED)
    full = quotas.refusal(template.queue, len(clean))
    if full is not None:
        raise full
    stored = [one for one, _ in clean]
    rows = births.Varying(
        ids=uuid7_many(len(clean)),
        inputs=stored,
        texts=[text for _, text in clean],
        gates=[gate_of(job, one) for one in stored] if template.gate else [None] * len(clean),
    )
    runs = births.insert_many(template, rows)
    announce_on_commit(runs)
    if _after_submit or signals.run_submitted.receivers:
        for run in runs:
            _tell(run)
    return runs


def _new_run(job: Job, stored: dict[str, Any], options: Options, origin: Origin) -> Run:
    settings, now = conf.get(), clock.now()
    values = row_values(job, stored)
    for name in ("queue", "priority", "max_attempts"):
        if (wanted := getattr(options, name)) is not None:
            values[name] = wanted
    if options.timeout is not None:
        values["timeout_seconds"] = options.timeout
    parent = ancestry.current.get()
    depth = 0 if parent is None else parent.depth + 1
    if depth > settings.MAX_CHAIN_DEPTH:
        raise SchedulerError(
            f"Job {job.name!r} was submitted {depth} runs deep; runs that submit runs end at"
            f" MAX_CHAIN_DEPTH ({settings.MAX_CHAIN_DEPTH})."
        )
    key = options.key
    return births.new(
        id=uuid7(),
        namespace=settings.NAMESPACE,
        input=stored,
        key=key,
        dedupe=None if key is None else fingerprint(settings.NAMESPACE, key),
        trigger=origin.trigger,
        schedule_id=origin.schedule_id,
        schedule_name=origin.schedule_name,
        slot=origin.slot,
        guard=origin.guard,
        retry_of=origin.retry_of,
        parent=None if parent is None else parent.run_id,
        depth=depth,
        run_at=_run_at(options, now),
        submitted_at=now,
        meta=payload.normalise(options.meta or {}, "meta", settings.MAX_INPUT_BYTES),
        **values,
    )


def _run_at(options: Options, now: dt.datetime) -> dt.datetime:
    if options.at is not None:
        return options.at
    if options.delay is None:
        return now
    delay = options.delay
    return now + (delay if isinstance(delay, dt.timedelta) else dt.timedelta(seconds=delay))


def _existing(run: Run) -> Run:
    """The Run that holds the key already, if it is the same work."""
    assert run.dedupe is not None  # noqa: S101  # only a keyed insert can find its place taken
    found = births.holder_of(run.dedupe)
    if found is None:
        raise KeyConflict(
            f"The key {run.key!r} was taken and freed again at this moment; submit once more."
        )
    require_same(found, job=run.job, given=run.input, key=run.key)
    return found


def require_same(found: Run, *, job: str, given: Any, key: str | None) -> None:
    """Raise unless the Run that holds a key is the work for which the key is used now."""
    if not _is_same_job(found.job, job) or not payload.is_same(
        codec.unseal(found.input, f"The input of Run {found.id}"), given
    ):
        raise KeyConflict(
            f"The key {key!r} belongs to Run {found.id} of job {found.job!r} with"
            " another input; use another key, or the same input."
        )


def _is_same_job(one: str, other: str) -> bool:
    if one == other:
        return True
    job = registry.find(one)
    return job is not None and job is registry.find(other)  # its former name


def _tell(run: Run) -> None:
    for hook in _after_submit:
        hook(run)
    if signals.run_submitted.receivers:
        transaction.on_commit(
            lambda: signals.notify(signals.run_submitted, Run, run=run),
            using=conf.get().DATABASE,
            robust=True,
        )


def join(run: Run, timeout: float | None = None) -> Run:
    """Wait until the Run has ended; woken through Redis where there is one."""
    seconds = conf.get().JOIN_TIMEOUT if timeout is None else timeout
    deadline = clock.monotonic() + seconds
    with joins.interest(run.id.hex, seconds) as waiter:
        while True:
            run.refresh_from_db()
            if run.is_finished:
                return run
            left = deadline - clock.monotonic()
            if left <= 0:
                raise JoinTimeout(
                    f"Run {run.id} of {run.job!r} is still {run.status} after {seconds:g} s;"
                    " it goes on, join it again or look at it in the admin."
                )
            waiter.wait(left)


def cancel(run: Run, *, reason: str = "", by: str = "") -> bool:
    """End the Run as cancelled, if it has not ended; a running handler is told."""
    done = cancels.cancel(run.id, reason=reason, by=by)
    run.refresh_from_db()
    if done.cancelled:
        _after_cancel(run, done)
    return done.cancelled


def _after_cancel(run: Run, done: cancels.Cancelled) -> None:
    def tell() -> None:
        if done.was_running:
            control.tell_cancelled(run.id.hex)
        joins.ended([run.id.hex])
        tell_finished(run.id, run.job, run.status, attempt=run.attempt, node=run.node)

    transaction.on_commit(tell, using=conf.get().DATABASE, robust=True)
    if done.promoted:
        announce_on_commit(done.promoted)


def retry(run: Run, *, by: str = "", key: str | None = None) -> Run:
    """A failed or cancelled Run again: a new Run with the same job and input.

    The same `key` gives the same new Run, so that a retry can be repeated safely.
    """
    run.refresh_from_db()
    if run.status not in {*lifecycle.FAILURES, lifecycle.State.CANCELLED}:
        raise SchedulerError(
            f"Run {run.id} is {run.status}; only failed, timed out or cancelled Runs"
            " can be retried."
        )
    job = registry.get(run.job)
    meta = {**run.meta, "retried_by": by} if by else dict(run.meta)
    options = Options(key=None if key is None else f"retry:{run.id}:{key}", meta=meta)
    # What could not be dispatched was never given its job's policy.
    if run.reason != lifecycle.Reason.DISPATCH_FAILED:
        options = dataclasses.replace(
            options,
            queue=run.queue,
            priority=run.priority,
            max_attempts=run.max_attempts,
            timeout=run.timeout_seconds,
        )
    if faults := options.faults():
        raise InvalidInput(f"Run {run.id} cannot be retried: {'; '.join(faults)}.")
    origin = Origin(
        trigger=lifecycle.Trigger.RETRY,
        schedule_id=run.schedule_id,
        schedule_name=run.schedule_name,
        guard=run.guard,
        retry_of=run.id,
    )
    with transaction.atomic(using=conf.get().DATABASE):
        again = submit(job, run.input, options, origin)
        dead_letters.answer(run.id, by=by)
    return again
