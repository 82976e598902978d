"""Schedules that could not be dispatched: counted, tried again later, passed over in the end.

Each costs only itself. A schedule that failed waits before it is tried again, and while it waits
it is not among the due ones, so it can never stand in front of others.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Iterable, Sequence

from sync_scheduler import signals
from sync_scheduler.dispatch.plan import Circumstances, pass_over
from sync_scheduler.errors import SchedulerError
from sync_scheduler.jobs import payload
from sync_scheduler.models import Schedule
from sync_scheduler.store import dead_letters, schedules
from sync_scheduler.store.moves import Move
from sync_scheduler.store.schedules import DueSchedule, Failure

logger = logging.getLogger(__name__)

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
        if not isinstance(self.error, SchedulerError):
            message = f"{type(self.error).__name__}: {message}"
        return payload.clean_text(message, _ERROR_BYTES)


def record(found: Sequence[Mishap], epoch: int, given: Circumstances) -> None:
    """Count each failure; pass over the slots of those that have failed too often."""
    if not found:
        return
    limit = given.settings.MAX_DISPATCH_FAILURES
    last = [mishap for mishap in found if mishap.due.failures + 1 >= limit]
    again = [mishap for mishap in found if mishap.due.failures + 1 < limit]
    if again:
        schedules.record_failures(_grouped(again, given.now), epoch)
    _pass_over(last, epoch, given.now)
    for mishap in found:
        _tell(mishap, is_dead=mishap.due.failures + 1 >= limit)


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


def _pass_over(found: Iterable[Mishap], epoch: int, now: dt.datetime) -> None:
    letters: list[tuple[Move, str]] = []
    for mishap in found:
        due = mishap.due
        try:
            letters.append((pass_over(due, mishap.text, now), mishap.text))
        except Exception:  # noqa: BLE001  # the rule itself cannot be read: there is no next slot
            if schedules.give_up(due, error=mishap.text, epoch=epoch):
                dead_letters.bury_schedule(
                    schedule_id=due.id,
                    name=due.name,
                    job=due.job,
                    slot=due.next_run_at,
                    error=mishap.text,
                )
    if letters:
        dead_letters.bury_slots(letters, epoch)


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
