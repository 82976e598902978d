"""Schedules whose next run is wrong: changed behind our back, or by a clock that was wrong.

Not part of the dispatching: it goes through all schedules slowly, a page at a time.
"""

from __future__ import annotations

import datetime as dt

from sync_scheduler.errors import InvalidRule
from sync_scheduler.models import Schedule
from sync_scheduler.store import schedules
from sync_scheduler.timing import slots

_PAGE = 500
# What is due this soon is left to the dispatcher.
_SOON = dt.timedelta(seconds=5)


class Mender:
    """Remembers where it is."""

    def __init__(self) -> None:
        self._after = 0

    def mend(self, now: dt.datetime, epoch: int) -> int:
        """Put next runs right that nobody would come to; returns how many."""
        schedules.clear_disabled()
        page = schedules.page(self._after, _PAGE)
        self._after = page[-1].id if len(page) == _PAGE else 0
        candidates = {s.id: s for s in (*schedules.without_next_run(_PAGE), *page)}
        wrong = []
        for schedule in candidates.values():
            if schedule.next_run_at is not None and schedule.next_run_at <= now + _SOON:
                continue
            right = _next_run(schedule, now)
            if right != schedule.next_run_at:
                wrong.append((schedule, right))
        return schedules.set_next_runs(wrong, epoch) if wrong else 0


def _next_run(schedule: Schedule, now: dt.datetime) -> dt.datetime | None:
    try:
        return slots.next_after(schedule.recurrence, now)
    except InvalidRule:
        return schedule.next_run_at  # nothing to go by; the dispatcher will say so
