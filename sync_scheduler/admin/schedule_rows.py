"""Schedule rows: schedules as the list shows them, with their last slots as marks.

The newest runs of each schedule on the page are found in two steps along one index: where the
fourteenth newest stands, then everything from there on. Neither grows with the history.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Sequence

from django.db.models import OuterRef, Q, Subquery
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sync_scheduler import lifecycle
from sync_scheduler.admin import causes, marks, moments, run_rows, schedule_state
from sync_scheduler.admin.payloads import hide_in_runs
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Schedule

TICKS = 14
ENDED = (State.COMPLETED, State.FAILED, State.TIMED_OUT, State.CANCELLED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    schedule: Schedule
    standing: schedule_state.Standing
    sentence: str
    ticks: list[tuple[marks.Mark, uuid.UUID, str]]
    last_mark: marks.Mark | None
    last_at: SafeString
    last_cause: str
    last_id: uuid.UUID | None
    next: SafeString
    is_failing: bool


def newest_runs(ids: Sequence[int], each: int = TICKS) -> dict[int, list[Run]]:
    """The newest runs of each schedule, newest first, without secrets. At most three queries."""
    if not ids:
        return {}
    nth = Run.objects.filter(schedule_id=OuterRef("id")).order_by("-id").values("id")
    floors = (
        Schedule.objects.filter(id__in=ids)
        .annotate(floor=Subquery(nth[each - 1 : each]))
        .values_list("id", "floor")
    )
    where = Q(pk__in=())
    for schedule_id, floor in floors:
        own = Q(schedule_id=schedule_id)
        where |= own if floor is None else own & Q(id__gte=floor)
    found: dict[int, list[Run]] = defaultdict(list)
    for run in hide_in_runs(list(Run.objects.filter(where).only(*run_rows.COLUMNS))):
        if run.schedule_id is not None:
            found[run.schedule_id].append(run)
    return {key: sorted(runs, key=lambda run: run.id, reverse=True) for key, runs in found.items()}


def rows(schedules: Sequence[Schedule], now: dt.datetime) -> list[ScheduleRow]:
    recent = newest_runs([schedule.id for schedule in schedules])
    return [_row(schedule, recent.get(schedule.id, []), now) for schedule in schedules]


def last_ended(runs: Sequence[Run]) -> Run | None:
    return next((run for run in runs if run.status in ENDED), None)


def failed_in_a_row(runs: Sequence[Run], most: int) -> int:
    """How many of the newest ended runs failed, one after another; counted up to `most`."""
    ended = [run for run in runs if run.status in ENDED][:most]
    return next(
        (i for i, run in enumerate(ended) if run.status not in lifecycle.FAILURES), len(ended)
    )


def _row(schedule: Schedule, runs: Sequence[Run], now: dt.datetime) -> ScheduleRow:
    active = next((run for run in runs if run.status == State.RUNNING), None)
    last = last_ended(runs)
    is_failing = last is not None and last.status in lifecycle.FAILURES
    cause = ""
    if last is not None and last.status != State.COMPLETED:
        cause = causes.in_words(last.error, last.reason)
    return ScheduleRow(
        schedule=schedule,
        standing=schedule_state.standing(schedule, active or last, now),
        sentence=schedule_state.sentence(schedule),
        ticks=[
            (
                marks.of_run(run.status, attempt=run.attempt, reason=run.reason),
                run.id,
                moments.wall(run.slot or run.submitted_at, schedule.timezone, now=now),
            )
            for run in reversed(runs[:TICKS])
        ],
        last_mark=None
        if last is None
        else marks.of_run(last.status, attempt=last.attempt, reason=last.reason),
        last_at=moments.element(None, now=now, otherwise=_("has never run"))
        if last is None
        else moments.ago(last.finished_at or last.submitted_at, now=now),
        last_cause=cause,
        last_id=None if last is None else last.id,
        next=schedule_state.next_run(schedule, now),
        is_failing=is_failing,
    )
