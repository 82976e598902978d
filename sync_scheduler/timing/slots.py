"""Which instants follow from a recurrence: the next, the newest, how many.

A slot is an aware instant in UTC. `start_at` and `end_at` bound the slots themselves, both
inclusive; they never shift them. Ranges are open at the old end and closed at the new one,
so that the slots of adjoining ranges add up.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from itertools import islice, takewhile

from sync_scheduler.timing import cron, interval
from sync_scheduler.timing.changes import ClockChange, dst_changes, explain_change
from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.timing.zones import instant_of, seconds_of

__all__ = [
    "ClockChange",
    "count",
    "dst_changes",
    "explain_change",
    "first_from",
    "jitter_for",
    "latest",
    "next_after",
    "preview",
    "reaching_back",
    "upcoming",
]

_MICROSECOND = dt.timedelta(microseconds=1)


def next_after(r: Recurrence, base: dt.datetime) -> dt.datetime | None:
    """The first slot strictly after `base`; None when there is none any more."""
    if r.start_at is not None and base < r.start_at:
        base = r.start_at - _MICROSECOND
    if r.kind == "cron":
        second = cron.next_slot(r.expression, r.timezone, seconds_of(base))
        found = None if second is None else instant_of(second)
    elif r.kind == "interval":
        found = _grid(r, _steps_passed(r, base) + 1)
    else:
        found = r.instant if r.instant > base else None
    if found is None or (r.end_at is not None and found > r.end_at):
        return None
    return found


def reaching_back(r: Recurrence, instant: dt.datetime) -> Recurrence:
    """The same rule, with slots from `instant` on where an interval only began later.

    Without a start its anchor is just the moment at which the schedule was made. Whoever asks for
    the time before means the same grid, as with a cron rule.
    """
    if r.kind != "interval" or r.start_at is not None or instant > r.grid_anchor:
        return r
    period = interval.period_of(r.expression)
    steps = interval.steps_until(r.grid_anchor, period, instant)
    try:
        return dataclasses.replace(r, anchor=r.grid_anchor + period * (steps - r.first_step))
    except OverflowError:
        return r  # the beginning of all times


def first_from(r: Recurrence, instant: dt.datetime) -> dt.datetime | None:
    """The first slot that is not earlier than `instant`."""
    return next_after(r, instant - _MICROSECOND)


def preview(r: Recurrence, base: dt.datetime, n: int) -> list[dt.datetime]:
    """The next `n` slots after `base`, fewer when the rule ends before."""
    found: list[dt.datetime] = []
    slot = next_after(r, base)
    while slot is not None and len(found) < n:
        found.append(slot)
        slot = next_after(r, slot)
    return found


def upcoming(
    r: Recurrence, after: dt.datetime, until: dt.datetime, limit: int
) -> list[dt.datetime]:
    """The oldest `limit` slots in (after, until], ascending."""
    after, until = _bounded(r, after, until)
    if until <= after or limit <= 0:
        return []
    if r.kind == "cron":
        last = seconds_of(until)
        seconds = cron.slots_from(r.expression, r.timezone, seconds_of(after))
        due = takewhile(lambda second: second <= last, seconds)
        return [instant_of(second) for second in islice(due, limit)]
    if r.kind == "interval":
        first, end = _steps_passed(r, after) + 1, _steps_passed(r, until) + 1
        return _grid_slice(r, first, min(end, first + limit))
    return [r.instant] if after < r.instant <= until else []


def latest(r: Recurrence, after: dt.datetime, until: dt.datetime, limit: int) -> list[dt.datetime]:
    """The newest `limit` slots in (after, until], ascending.

    The work is bounded by `limit`, not by the length of the range.
    """
    after, until = _bounded(r, after, until)
    if until <= after or limit <= 0:
        return []
    if r.kind == "cron":
        newest = cron.slots_back(r.expression, r.timezone, seconds_of(after), seconds_of(until))
        return [instant_of(second) for second in islice(newest, limit)][::-1]
    if r.kind == "interval":
        first, end = _steps_passed(r, after) + 1, _steps_passed(r, until) + 1
        return _grid_slice(r, max(first, end - limit), end)
    return [r.instant] if after < r.instant <= until else []


def count(r: Recurrence, after: dt.datetime, until: dt.datetime) -> int:
    """How many slots lie in (after, until], exactly and without walking through them."""
    after, until = _bounded(r, after, until)
    if until <= after:
        return 0
    if r.kind == "cron":
        return cron.count_slots(r.expression, r.timezone, seconds_of(after), seconds_of(until))
    if r.kind == "interval":
        return _steps_passed(r, until) - _steps_passed(r, after)
    return 1 if after < r.instant <= until else 0


def jitter_for(name: str, slot: dt.datetime, seconds: float) -> dt.timedelta:
    """A delay in [0, seconds) that every node computes alike for this slot of this schedule."""
    if seconds <= 0:
        return dt.timedelta()
    text = f"{name}\n{slot.astimezone(dt.UTC).isoformat()}".encode("utf-8", "backslashreplace")
    share = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest()) / 2**48
    return dt.timedelta(microseconds=int(share * seconds * 1_000_000))


def _bounded(
    r: Recurrence, after: dt.datetime, until: dt.datetime
) -> tuple[dt.datetime, dt.datetime]:
    if r.start_at is not None:
        after = max(after, r.start_at - _MICROSECOND)
    if r.end_at is not None:
        until = min(until, r.end_at)
    return after, until


def _steps_passed(r: Recurrence, instant: dt.datetime) -> int:
    """The number of the newest grid point that is not later, counted as if slots began there."""
    passed = interval.steps_until(r.grid_anchor, interval.period_of(r.expression), instant)
    return max(passed, r.first_step - 1)


def _grid(r: Recurrence, step: int) -> dt.datetime | None:
    try:
        return (r.grid_anchor + interval.period_of(r.expression) * step).astimezone(dt.UTC)
    except OverflowError:
        return None


def _grid_slice(r: Recurrence, first: int, end: int) -> list[dt.datetime]:
    anchor, period = r.grid_anchor.astimezone(dt.UTC), interval.period_of(r.expression)
    return [anchor + period * step for step in range(first, end)]
