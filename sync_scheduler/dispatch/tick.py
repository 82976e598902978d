"""One tick: everything that is due now becomes a Run, or the record of why it did not."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from sync_scheduler import conf, failpoints, signals
from sync_scheduler.dispatch import mishaps
from sync_scheduler.dispatch.outages import Outages
from sync_scheduler.dispatch.plan import Circumstances, plan
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.intake.ready import announce
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Schedule
from sync_scheduler.store import leader, schedules, slots
from sync_scheduler.store.locking import is_outage
from sync_scheduler.store.moves import Admitted, Born, Move
from sync_scheduler.store.schedules import DueSchedule

logger = logging.getLogger(__name__)

# Rows in one statement. A schedule that catches up brings many.
_MOST_ROWS = 1000
# Rows that the missed slots of one page may leave behind, and those of one schedule at least.
_SKIPPED_ROWS = 2000
_FEWEST_SKIPPED_ROWS = 10
# A decision that was made ahead holds for the time at which it was to be written, not for later.
_STALE = dt.timedelta(seconds=1)


class Term(Protocol):
    """The authority to dispatch."""

    @property
    def epoch(self) -> int: ...

    def require_trust(self) -> None:
        """Raises `LeadershipLost` when the proof of leading is older than the lease."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """What a tick did. `held_up` counts due schedules that could not be moved on."""

    due: int = 0
    dispatched: int = 0
    skipped: int = 0
    failed: int = 0
    held_up: int = 0

    def __add__(self, other: Ticked) -> Ticked:
        return Ticked(
            due=self.due + other.due,
            dispatched=self.dispatched + other.dispatched,
            skipped=self.skipped + other.skipped,
            failed=self.failed + other.failed,
            held_up=self.held_up + other.held_up,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A page of schedules and what is to become of them at the time of `given`; not yet written."""

    page: Sequence[DueSchedule]
    moves: Sequence[Move]
    failed: Sequence[mishaps.Mishap]
    given: Circumstances


def tick(
    term: Term,
    now: dt.datetime,
    on_progress: Callable[[], None] = lambda: None,
    ahead: Decided | None = None,
) -> Ticked:
    """Dispatch everything that is due at `now`, page by page.

    `ahead` is what was decided just before its time. It is only written, and as any decision only
    as far as what it was derived from still holds.
    """
    settings, done = conf.get(), Ticked()
    if ahead is not None and dt.timedelta() <= now - ahead.given.now < _STALE:
        term.require_trust()
        done = _write(term, ahead)
        on_progress()
        if len(ahead.page) < settings.DISPATCH_BATCH and not done.held_up:
            return done
        done = dataclasses.replace(done, held_up=0)  # looked at again below
    outages = Outages()
    after: tuple[dt.datetime, int] | None = None
    while True:
        term.require_trust()
        decided = _decide(now, after, outages)
        if decided.page:
            done += _write(term, decided)
        on_progress()
        if len(decided.page) < settings.DISPATCH_BATCH:
            return done
        after = (decided.page[-1].next_run_at, decided.page[-1].id)


def look_ahead(at: dt.datetime) -> Decided | None:
    """Decide what is to become of what is due at `at`, a moment before; None: nothing is."""
    decided = _decide(at, None, Outages())
    return decided if decided.page else None


def _decide(now: dt.datetime, after: tuple[dt.datetime, int] | None, outages: Outages) -> Decided:
    settings = conf.get()
    page = schedules.due(now, settings.DISPATCH_BATCH, after)
    given = Circumstances(
        now=now,
        settings=settings,
        skip_rows=max(_FEWEST_SKIPPED_ROWS, min(100, _SKIPPED_ROWS // max(1, len(page)))),
        explain=outages.explain,
    )
    moves: list[Move] = []
    failed: list[mishaps.Mishap] = []
    for due in page:
        try:
            moves.append(plan(due, given))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this schedule's alone
            failed.append(mishaps.Mishap(due=due, error=error))
    return Decided(page=page, moves=moves, failed=failed, given=given)


def _write(term: Term, decided: Decided) -> Ticked:
    page, failed, given = decided.page, list(decided.failed), decided.given
    by_id = {due.id: due for due in page}
    done, moved = Ticked(due=len(page)), set[int]()
    for chunk in _chunks(decided.moves):
        failpoints.hit("in_dispatch")
        admitted, refused = _admit(chunk, term.epoch)
        failed += [mishaps.Mishap(due=by_id[i], error=error) for i, error in refused.items()]
        if not admitted.moved and not leader.is_current(term.epoch):
            raise LeadershipLost
        done += _tell(chunk, admitted, len(refused))
        moved |= admitted.moved
    _end_pauses(page, moved, given.now)
    counted = mishaps.record(failed, term.epoch, given)
    return done + Ticked(failed=counted, held_up=len(failed) - counted)


def _chunks(moves: Sequence[Move]) -> Iterator[list[Move]]:
    chunk: list[Move] = []
    rows = 0
    for move in moves:
        if chunk and rows + len(move.slots) > _MOST_ROWS:
            yield chunk
            chunk, rows = [], 0
        chunk.append(move)
        rows += len(move.slots)
    if chunk:
        yield chunk


def _admit(chunk: Sequence[Move], epoch: int) -> tuple[Admitted, dict[int, Exception]]:
    """Write the moves together; one by one if something among them cannot be written.

    The database may refuse a value, and a payload codec may raise anything while it encodes one.
    """
    try:
        return slots.admit(chunk, epoch), {}
    except Exception as error:
        if is_outage(error):
            raise  # it is the database, not a schedule
        if len(chunk) == 1:
            return Admitted(moved=frozenset(), born=()), {chunk[0].schedule_id: error}
    moved: set[int] = set()
    born: list[Born] = []
    refused: dict[int, Exception] = {}
    for move in chunk:
        admitted, faults = _admit([move], epoch)
        moved |= admitted.moved
        born += admitted.born
        refused |= faults
    return Admitted(moved=frozenset(moved), born=tuple(born)), refused


def _tell(chunk: Sequence[Move], admitted: Admitted, refused: int) -> Ticked:
    ready = [born for born in admitted.born if born.status == State.SUBMITTED]
    if ready:
        announce(ready)
    if signals.slot_dispatched.receivers or signals.slot_skipped.receivers:
        names = {move.schedule_id: move.name for move in chunk}
        for born in admitted.born:
            _notify(names[born.schedule_id], born)
    return Ticked(
        dispatched=len(ready),
        skipped=len(admitted.born) - len(ready),
        held_up=len(chunk) - len(admitted.moved) - refused,
    )


def _notify(name: str, born: Born) -> None:
    if born.status == State.SUBMITTED:
        signals.notify(
            signals.slot_dispatched, Schedule, schedule=name, slot=born.slot, run_id=born.id
        )
    else:
        signals.notify(
            signals.slot_skipped, Schedule, schedule=name, slot=born.slot, reason=born.reason
        )


def _end_pauses(page: Sequence[DueSchedule], moved: set[int], now: dt.datetime) -> None:
    over = [
        due.id
        for due in page
        if due.paused_until is not None and due.paused_until <= now and due.id in moved
    ]
    if over:
        schedules.end_pauses(over, now)
