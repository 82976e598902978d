"""Durations: how long runs of a job usually take and how often they fail, from a sample."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict

from sync_scheduler import lifecycle
from sync_scheduler.admin import moments
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run

SAMPLE = 2_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """What the newest ended runs of a job say. `usual` in seconds; None: none has completed."""

    ended: int
    failed: int
    usual: float | None

    @property
    def failure_rate(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


def habits() -> dict[str, Habit]:
    """Of every job among the newest ended runs; one bounded read along an index."""
    newest = (
        Run.objects.filter(finished_at__isnull=False)
        .order_by("-finished_at")
        .values_list("job", "status", "started_at", "finished_at")[:SAMPLE]
    )
    took: dict[str, list[float]] = defaultdict(list)
    ended: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    for job, status, started_at, finished_at in newest:
        if status == State.SKIPPED:
            continue
        ended[job] += 1
        failed[job] += status in lifecycle.FAILURES
        seconds = moments.between(started_at, finished_at)
        if status == State.COMPLETED and seconds is not None:
            took[job].append(seconds)
    return {
        job: Habit(
            ended=number,
            failed=failed[job],
            usual=statistics.median(took[job]) if took[job] else None,
        )
        for job, number in ended.items()
    }


def usual(found: dict[str, Habit]) -> dict[str, float]:
    return {job: habit.usual for job, habit in found.items() if habit.usual is not None}
