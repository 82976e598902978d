"""Runs as operators see them: a page of history, or one Run with all that happened to it.

Secrets are masked here, so that nobody above can forget to.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Sequence
from typing import Any, TypedDict

from sync_scheduler.jobs.redaction import (
    MASK,
    has_secrets,
    redacted_input,
    redacted_text,
    redacted_value,
)
from sync_scheduler.lifecycle import sentence
from sync_scheduler.models import Attempt, Run, Schedule, Step
from sync_scheduler.store.locking import alias

PAGE = 50
SHORTEST_PREFIX = 8
_AMBIGUOUS = 5
_HEX = re.compile(r"[0-9a-f]{8,32}")


class RunEntry(TypedDict):
    id: uuid.UUID
    job: str
    schedule: str | None
    queue: str
    trigger: str
    status: str
    slot: dt.datetime | None
    run_at: dt.datetime
    submitted_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    attempt: int
    max_attempts: int
    node: str
    reason: str
    explanation: str
    error: str


class History(TypedDict):
    """`next`: the id to give as `before` for the following page; None: this was the last one."""

    runs: list[RunEntry]
    next: uuid.UUID | None


class AttemptEntry(TypedDict):
    number: int
    node: str
    started_at: dt.datetime
    finished_at: dt.datetime
    outcome: str
    error: str
    traceback: str
    retry_at: dt.datetime | None


class StepEntry(TypedDict):
    name: str
    attempt: int
    finished_at: dt.datetime
    result: Any


class EventEntry(TypedDict):
    kind: str
    at: dt.datetime
    node: str
    attempt: int
    data: dict[str, Any]


class RunDetail(RunEntry):
    priority: int
    key: str | None
    by: str
    timeout_seconds: float | None
    progress: float | None
    progress_message: str
    retry_of: uuid.UUID | None
    input: dict[str, Any] | str
    result: Any
    meta: dict[str, Any] | str
    attempts: list[AttemptEntry]
    steps: list[StepEntry]
    events: list[EventEntry]


def history(
    schedule: Schedule | None = None, *, before: uuid.UUID | None = None, limit: int = PAGE
) -> History:
    """The newest Runs, of one schedule or of all, older ones by `before`. At most two queries."""
    query = Run.objects.order_by("-id").defer("input", "result", "meta")
    if schedule is not None:
        query = query.filter(schedule_id=schedule.pk)
    if before is not None:
        query = query.filter(id__lt=before)
    rows = list(query[: limit + 1])
    shown = rows[:limit]
    inputs = _inputs_to_mask(shown)
    return History(
        runs=[entry(run, inputs.get(run.id, {})) for run in shown],
        next=shown[-1].id if len(rows) > limit else None,
    )


def _inputs_to_mask(runs: Sequence[Run]) -> dict[uuid.UUID, dict[str, Any]]:
    """The inputs that an error or a reason has to be compared with; mostly none."""
    ids = [run.id for run in runs if (run.error or run.reason) and has_secrets(run.job)]
    return dict(Run.objects.filter(id__in=ids).values_list("id", "input")) if ids else {}


def entry(run: Run, given: dict[str, Any]) -> RunEntry:
    """The facts of a Run without its payload; `given` is its input, for masking."""
    return RunEntry(
        id=run.id,
        job=run.job,
        schedule=run.schedule_name or None,
        queue=run.queue,
        trigger=run.trigger,
        status=run.status,
        slot=run.slot,
        run_at=run.run_at,
        submitted_at=run.submitted_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        attempt=run.attempt,
        max_attempts=run.max_attempts,
        node=run.node,
        reason=redacted_text(run.job, given, run.reason),
        explanation=redacted_text(run.job, given, sentence(run.reason)),
        error=redacted_text(run.job, given, run.error),
    )


def detail(run: Run, *, with_payload: bool = True) -> RunDetail:
    """Everything about one Run; without its payload, that is masked as a whole."""
    using = alias()
    events = run.events()
    attempts = Attempt.objects.using(using).filter(run_id=run.id).order_by("id")
    steps = Step.objects.using(using).filter(run_id=run.id).order_by("id")

    def clean(text: str) -> str:
        return redacted_text(run.job, run.input, text)

    def payload(value: Any) -> Any:
        return redacted_value(run.job, run.input, value) if with_payload else MASK

    return RunDetail(
        **entry(run, run.input),
        priority=run.priority,
        key=None if run.key is None else clean(run.key),
        by=_by(run),
        timeout_seconds=run.timeout_seconds,
        progress=run.progress,
        progress_message=clean(run.progress_message),
        retry_of=run.retry_of,
        input=redacted_input(run.job, run.input) if with_payload else MASK,
        result=payload(run.result),
        meta=payload(run.meta),
        attempts=[
            AttemptEntry(
                number=attempt.number,
                node=attempt.node,
                started_at=attempt.started_at,
                finished_at=attempt.finished_at,
                outcome=attempt.outcome,
                error=clean(attempt.error),
                traceback=clean(attempt.traceback),
                retry_at=attempt.retry_at,
            )
            for attempt in attempts
        ],
        steps=[
            StepEntry(
                name=step.name,
                attempt=step.attempt,
                finished_at=step.finished_at,
                result=payload(step.result),
            )
            for step in steps
        ],
        events=[
            EventEntry(
                kind=event.kind,
                at=event.at,
                node=event.node,
                attempt=event.attempt,
                data=redacted_value(run.job, run.input, event.data),
            )
            for event in events
        ],
    )


def _by(run: Run) -> str:
    """Who asked for it, where a person did."""
    who = run.meta.get("retried_by") or run.meta.get("by")
    return who if isinstance(who, str) else ""


def get(run_id: uuid.UUID) -> Run | None:
    return Run.objects.filter(id=run_id).first()


def beginning_with(text: str) -> list[uuid.UUID]:
    """The first few ids that begin with this text; none if it is too short or not hexadecimal."""
    digits = text.strip().lower().replace("-", "")
    if not _HEX.fullmatch(digits):
        return []
    # The bounds are ids of the same kind as ours: a database may order other kinds differently.
    low = _completed(digits, "00000000000070008000000000000000")
    high = _completed(digits, "ffffffffffff7fffbfffffffffffffff")
    query = Run.objects.filter(id__gte=low, id__lte=high).order_by("id")
    found = query.values_list("id", flat=True)[: _AMBIGUOUS + 1]
    return [run_id for run_id in found if run_id.hex.startswith(digits)]


def _completed(digits: str, pattern: str) -> uuid.UUID:
    return uuid.UUID(digits + pattern[len(digits) :])
