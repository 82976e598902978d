"""Schedules that could not be dispatched: counted, tried again later, passed over in the end.

Each costs only itself. A schedule that failed waits before it is tried again, and while it waits
it is not among the due ones, so it can never stand in front of others. The same holds while they
are passed over: what the database refuses as a Run, it refuses as the record of a failed one too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeVar

from django.db import DatabaseError

from sync_scheduler import signals
from sync_scheduler.dispatch.plan import Circumstances, pass_over
from sync_scheduler.errors import SchedulerError
from sync_scheduler.jobs import payload
from sync_scheduler.models import Schedule
from sync_scheduler.store import dead_letters, schedules
from sync_scheduler.store.locking import is_outage
from sync_scheduler.store.moves import Move
from sync_scheduler.store.schedules import DueSchedule, Failure

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_WAIT_SECONDS = 30
_ERROR_BYTES = 4000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mishap:
    due: DueSchedule
    error: Exception

    @property
    def text(self) -> str:
        """Our own errors are sentences for people; of others the kind matters too."""
        message = str(self.error)
        if isinstance(self.error, DatabaseError):
            # PostgreSQL shows the whole refused row in the lines below, its input included.
            message = message.partition("\n")[0]
        if not isinstance(self.error, SchedulerError):
            message = f"{type(self.error).__name__}: {message}"
        return payload.clean_text(message, _ERROR_BYTES)


def record(found: Sequence[Mishap], epoch: int, given: Circumstances) -> int:
    """Count each failure; pass over the slots of those that have failed too often.

    Returns how many were written. The others are held by somebody or have just changed, and are
    looked at again; nothing is told of them.
    """
    if not found:
        return 0
    limit = given.settings.MAX_DISPATCH_FAILURES
    last = [mishap for mishap in found if mishap.due.failures + 1 >= limit]
    dead = _pass_over(last, epoch, given)
    again = [mishap for mishap in found if mishap.due.id not in dead]
    counted: Collection[int] = ()
    if again:
        counted = schedules.record_failures(_grouped(again, given.now), epoch)
    written = [mishap for mishap in found if mishap.due.id in dead or mishap.due.id in counted]
    for mishap in written:
        _tell(mishap, is_dead=mishap.due.id in dead)
    return len(written)


def _grouped(found: Iterable[Mishap], now: dt.datetime) -> list[Failure]:
    groups: dict[tuple[str, int], list[int]] = {}
    for mishap in found:
        groups.setdefault((mishap.text, mishap.due.failures), []).append(mishap.due.id)
    return [
        Failure(ids=tuple(ids), failures=failures, error=text, retry_at=now + _wait(failures))
        for (text, failures), ids in groups.items()
    ]


def _wait(failures: int) -> dt.timedelta:
    return dt.timedelta(seconds=min(2**failures, _LONGEST_WAIT_SECONDS))


def _pass_over(found: Sequence[Mishap], epoch: int, given: Circumstances) -> frozenset[int]:
    """Which of them are done with; the others wait and are tried again, as after any failure."""
    letters: list[tuple[Move, str]] = []
    dead: set[int] = set()
    for mishap in found:
        try:
            letters.append((pass_over(mishap.due, mishap.text, given), mishap.text))
        except Exception:  # noqa: BLE001  # the rule itself cannot be read: there is no next slot
            if _written(partial(dead_letters.bury_schedule, mishap.due, mishap.text, epoch)):
                dead.add(mishap.due.id)
    return frozenset(dead | _bury(letters, epoch))


def _bury(letters: Sequence[tuple[Move, str]], epoch: int) -> set[int]:
    """Together; one by one if that fails; without a Run if that fails too."""
    if not letters:
        return set()
    admitted = _written(partial(dead_letters.bury_slots, letters, epoch))
    if admitted is not None:
        return set(admitted.moved)
    if len(letters) > 1:
        return set().union(*(_bury([letter], epoch) for letter in letters))
    move, error = letters[0]
    if _written(partial(dead_letters.bury_without_run, move, error, epoch)):
        return {move.schedule_id}
    return set()


def _written(write: Callable[[], T]) -> T | None:
    """None: something about these schedules cannot be written. An outage is not theirs."""
    try:
        return write()
    except Exception as error:
        if is_outage(error):
            raise
        return None


def _tell(mishap: Mishap, *, is_dead: bool) -> None:
    due = mishap.due
    logger.error(
        "schedule %r: slot %s could not be dispatched%s: %s",
        due.name,
        due.next_run_at.isoformat(),
        " and is passed over" if is_dead else "",
        mishap.text,
        extra={"event": "dispatch_failed", "schedule": due.name},
    )
    signals.notify(
        signals.dispatch_failed,
        Schedule,
        schedule=due.name,
        slot=due.next_run_at,
        error=mishap.text,
        dead_lettered=is_dead,
    )
