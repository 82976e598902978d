"""Run export: the list of Runs as a file for spreadsheets, row by row as the page shows them.

It holds what the list holds, with the same secrets taken out, and neither inputs nor results. Rows
are read in small batches while the file is sent.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import io
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from sync_scheduler.admin import moments, run_rows
from sync_scheduler.admin.payloads import hide_in_runs
from sync_scheduler.admin.run_filter import RunFilter
from sync_scheduler.models import Run

MOST = 10_000
_BATCH = 500
# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_HEADINGS = (
    *("id", "schedule", "job", "queue", "trigger", "state", "attempt", "max_attempts"),
    *("slot", "submitted_at", "started_at", "finished_at", "took_seconds", "node", "cause"),
)


def answer(request: HttpRequest, wanted: RunFilter, now: dt.datetime) -> StreamingHttpResponse:
    """The newest Runs that match, as far as they fit into one file."""
    batches = _batches(wanted, now)
    # The first one is read here, so that a database that does not answer is told as on any page.
    parts = itertools.chain([_lines([_HEADINGS]) + next(batches, "")], batches)
    content: Any = _awaited(parts) if isinstance(request, ASGIRequest) else parts
    return StreamingHttpResponse(
        content,
        content_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="runs-{now:%Y%m%d-%H%M%S}.csv"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        },
    )


def _batches(wanted: RunFilter, now: dt.datetime) -> Iterator[str]:
    left = MOST
    while left > 0:
        found = wanted.page(now, size=min(_BATCH, left))
        hide_in_runs(found.runs)
        if found.runs:
            yield _lines([_cells(run, now) for run in found.runs])
        left -= len(found.runs)
        if found.older is None or found.stopped_early:
            return
        wanted = dataclasses.replace(wanted, before=found.older)


async def _awaited(parts: Iterator[str]) -> AsyncIterator[str]:
    while part := await sync_to_async(_next)(parts):
        yield part


def _next(parts: Iterator[str]) -> str:
    """Empty when there is no more; no part of the file is."""
    return next(parts, "")


def _cells(run: Run, now: dt.datetime) -> tuple[Any, ...]:
    seconds = moments.between(run.started_at, run.finished_at)
    return (
        run.id,
        run.schedule_name,
        run.job,
        run.queue,
        run.trigger,
        run.status,
        run.attempt,
        run.max_attempts,
        *(_written(at) for at in (run.slot, run.submitted_at, run.started_at, run.finished_at)),
        "" if seconds is None else f"{seconds:.3f}",
        run.node,
        run_rows.cause(run, now),
    )


def _written(at: dt.datetime | None) -> str:
    return "" if at is None else at.astimezone(dt.UTC).isoformat()


def _lines(rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """Text that a spreadsheet would calculate gets a quote in front."""
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        return f"'{cell}"
    return cell
