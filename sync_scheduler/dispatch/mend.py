"""Schedules whose next run is wrong: changed behind our back, or by a clock that was wrong.

Not part of the dispatching: it goes through all schedules slowly, a page at a time. Only when the
leader before read another edition of the time zone database than this node does, those that the
editions may disagree about are gone through at once: their clocks may have been changed by law.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable

from sync_scheduler import clock
from sync_scheduler.errors import InvalidRule
from sync_scheduler.models import Schedule
from sync_scheduler.store import editions, schedules
from sync_scheduler.timing import slots, zones

logger = logging.getLogger(__name__)

_PAGE = 500
# What is due this soon is left to the dispatcher.
_SOON = dt.timedelta(seconds=5)
# No slot is dispatched before its time, so a watermark this far ahead cannot be true.
_UNBELIEVABLE = dt.timedelta(days=1)
# Longer than this at a stretch, and other housekeeping would come too late; the rest follows.
_LONGEST_STRETCH_SECONDS = 10.0


class Mender:
    """Remembers where it is."""

    def __init__(self) -> None:
        self._after = 0
        self._epoch = 0
        # From which schedule on the ones in zones are still to be recomputed; None: done.
        self._zoned_after: int | None = None
        self._told: frozenset[str] = frozenset()

    def mend(self, now: dt.datetime, epoch: int) -> int:
        """Put next runs right that nobody would come to; returns how many."""
        self._compare_editions(epoch)
        schedules.clear_disabled()
        changed = self._recompute_zoned(now, epoch)
        page = schedules.page(self._after, _PAGE)
        self._after = page[-1].id if len(page) == _PAGE else 0
        candidates = {s.id: s for s in (*schedules.without_next_run(_PAGE), *page)}
        return changed + _put_right(candidates.values(), now, epoch)

    def _compare_editions(self, epoch: int) -> None:
        mine = zones.tzdata_version()[:50]
        if epoch != self._epoch:
            self._epoch = epoch
            before = editions.of_leader_before(epoch)
            if before is not None and before != mine:
                logger.warning(
                    "this node reads edition %r of the time zone database, the leader before read"
                    " %r; next runs in time zones are computed anew",
                    mine,
                    before,
                    extra={"event": "tzdata_changed"},
                )
                self._zoned_after = 0
        found = editions.living()
        if len(found) > 1 and frozenset(found) != self._told:
            logger.warning(
                "the nodes read different editions of the time zone database (%s); update tzdata"
                " and restart the older ones",
                "; ".join(f"{edition or 'unknown'}: {len(found[edition])}" for edition in found),
                extra={"event": "tzdata_differs"},
            )
        self._told = frozenset(found)

    def _recompute_zoned(self, now: dt.datetime, epoch: int) -> int:
        changed, until = 0, clock.monotonic() + _LONGEST_STRETCH_SECONDS
        while self._zoned_after is not None and clock.monotonic() < until:
            page = schedules.page(self._zoned_after, _PAGE, only_zoned=True)
            changed += _put_right(page, now, epoch)
            self._zoned_after = page[-1].id if len(page) == _PAGE else None
        return changed


def _put_right(candidates: Iterable[Schedule], now: dt.datetime, epoch: int) -> int:
    wrong = []
    for schedule in candidates:
        if schedule.next_run_at is not None and schedule.next_run_at <= now + _SOON:
            continue
        right = _next_run(schedule, now)
        if right != schedule.next_run_at:
            wrong.append((schedule, right))
    return schedules.set_next_runs(wrong, epoch) if wrong else 0


def _next_run(schedule: Schedule, now: dt.datetime) -> dt.datetime | None:
    base, last = now, schedule.last_slot
    if last is not None and now < last <= now + _UNBELIEVABLE:
        base = last  # it has had that slot, whatever the clocks say now
    try:
        return slots.next_after(schedule.recurrence, base)
    except InvalidRule:
        return schedule.next_run_at  # nothing to go by; the dispatcher will say so
