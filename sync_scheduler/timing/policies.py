"""What happens to slots that are due: run, skip, or drop, and with what reason.

A slot is misfired when it is found later than its grace. All others are on time and all of
them run, so that a change of leader loses no slot of a schedule that runs every second. The
work is bounded however long nothing was running.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from sync_scheduler.timing import slots
from sync_scheduler.timing.rules import Recurrence

MOST_CATCH_UP = 10_000
# A grace of a day on a schedule of every second is a mistake; it must not stop the tick.
MOST_ON_TIME = 10_000

_MICROSECOND = dt.timedelta(microseconds=1)


class Misfire(StrEnum):
    """What to do with slots that were missed."""

    SKIP = "skip"
    CATCH_UP_ONE = "catch_up_one"
    CATCH_UP_ALL = "catch_up_all"


class Overlap(StrEnum):
    """What to do with a slot while an earlier run of its schedule is still active."""

    SKIP = "skip"
    QUEUE = "queue"
    CONCURRENT = "concurrent"


class Reason(StrEnum):
    """Why a slot was not run."""

    MISFIRE = "misfire"
    CATCH_UP_LIMIT = "catch_up_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A slot that a policy ruled out, to be recorded by itself."""

    slot: dt.datetime
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Older slots, too many to be recorded one by one."""

    first: dt.datetime
    last: dt.datetime
    count: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of every slot that is due, and where to go on.

    `run` and `skipped` are ascending. `next_slot` is strictly after now, None when the rule
    has ended. `watermark` is the newest slot considered, None when there was none.
    """

    run: tuple[dt.datetime, ...]
    skipped: tuple[Skipped, ...]
    dropped: Dropped | None
    next_slot: dt.datetime | None
    watermark: dt.datetime | None


def normalise_misfire(value: object) -> str:
    """The policy of this name; an unknown one is `skip`."""
    return _known(Misfire, value)


def normalise_overlap(value: object) -> str:
    """The policy of this name; an unknown one is `skip`."""
    return _known(Overlap, value)


def decide(
    r: Recurrence,
    *,
    due: dt.datetime,
    now: dt.datetime,
    misfire: str,
    max_catch_up: int,
    grace: dt.timedelta,
    skip_rows: int = 100,
) -> Decision:
    """Decide about all slots from `due` to `now`.

    `due` is the first slot not yet handled. It may be stale, no slot of this rule any more:
    then it is only where the search begins, and nothing runs at it.

    Together the misfired slots leave at most `skip_rows` rows, or `max_catch_up` if that is
    more; what is older is counted in `dropped`.
    """
    before = due - _MICROSECOND
    on_time = slots.latest(r, max(before, now - grace - _MICROSECOND), now, MOST_ON_TIME)
    missed_until = on_time[0] - _MICROSECOND if on_time else now
    missed = slots.count(r, before, missed_until)
    policy = normalise_misfire(misfire)
    allowed = {
        Misfire.SKIP: 0,
        Misfire.CATCH_UP_ONE: 1,
        Misfire.CATCH_UP_ALL: min(max(max_catch_up, 0), MOST_CATCH_UP),
    }[Misfire(policy)]
    reason = Reason.CATCH_UP_LIMIT if policy == Misfire.CATCH_UP_ALL else Reason.MISFIRE
    kept = slots.latest(r, before, missed_until, max(skip_rows, allowed)) if missed else []
    split = len(kept) - min(allowed, len(kept))
    run = (*kept[split:], *on_time)
    return Decision(
        run=run,
        skipped=tuple(Skipped(slot=slot, reason=reason) for slot in kept[:split]),
        dropped=_dropped(r, before, kept, missed_until, missed - len(kept), reason),
        next_slot=slots.next_after(r, now),
        watermark=_newest(r, before, now, [*kept, *on_time]),
    )


def _dropped(
    r: Recurrence,
    before: dt.datetime,
    kept: list[dt.datetime],
    until: dt.datetime,
    number: int,
    reason: Reason,
) -> Dropped | None:
    if number <= 0:
        return None
    end = kept[0] - _MICROSECOND if kept else until
    first = slots.upcoming(r, before, end, 1)[0]
    last = slots.latest(r, before, end, 1)[0]
    return Dropped(first=first, last=last, count=number, reason=reason)


def _newest(
    r: Recurrence, before: dt.datetime, now: dt.datetime, known: list[dt.datetime]
) -> dt.datetime | None:
    if known:
        return known[-1]
    newest = slots.latest(r, before, now, 1)
    return newest[0] if newest else None


def _known(policies: type[StrEnum], value: object) -> str:
    try:
        return policies(str(value)).value
    except ValueError:
        return "skip"
