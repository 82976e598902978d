"""Schedules as the dispatcher sees them: what is due, what failed, what must be mended."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from django.db.models import F, Q

from sync_scheduler import conf
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.jobs import codec
from sync_scheduler.models import Schedule
from sync_scheduler.models.schedule import holds_back
from sync_scheduler.store import leader
from sync_scheduler.store.locking import connection, locked, short_transaction, speaks_arrays
from sync_scheduler.timing.rules import Recurrence

_FACTS = (
    "id",
    "name",
    "job",
    "input",
    "kind",
    "expression",
    "timezone",
    "anchor_at",
    "start_at",
    "end_at",
    "jitter_seconds",
    "misfire",
    "max_catch_up",
    "misfire_grace",
    "overlap",
    "paused_at",
    "paused_until",
    "pause_note",
    "paused_by",
    "version",
    "next_run_at",
    "last_slot",
    "failures",
    "retry_dispatch_at",
)
_INSTANTS = frozenset(
    {"anchor_at", "start_at", "end_at", "next_run_at", "last_slot", "paused_at", "paused_until"}
    | {"retry_dispatch_at"}
)
_INSTANT_PLACES = tuple(place for place, name in enumerate(_FACTS) if name in _INSTANTS)
_INPUT_PLACE = _FACTS.index("input")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# One that can be neither dispatched nor passed over fails for ever; the column is small.
_MOST_FAILURES = 30_000
_MICROSECOND = dt.timedelta(microseconds=1)


class DueSchedule(NamedTuple):
    """What a decision is derived from; field order is that of `_FACTS`.

    Made for every due schedule: a dataclass of so many fields takes ten times as long.
    """

    id: int
    name: str
    job: str
    input: dict[str, Any]
    kind: str
    expression: str
    timezone: str
    anchor_at: dt.datetime | None
    start_at: dt.datetime | None
    end_at: dt.datetime | None
    jitter_seconds: float
    misfire: str
    max_catch_up: int
    misfire_grace: float | None
    overlap: str
    paused_at: dt.datetime | None
    paused_until: dt.datetime | None
    pause_note: str
    paused_by: str
    version: int
    next_run_at: dt.datetime
    last_slot: dt.datetime | None
    failures: int
    retry_dispatch_at: dt.datetime | None

    @property
    def holds_slots_back(self) -> bool:
        """Whether its pause is to be caught up with; it has ended, or this would not be due."""
        return holds_back(self.paused_at, self.paused_until, self.retry_dispatch_at)

    @property
    def recurrence(self) -> Recurrence:
        """The rule; raises `InvalidRule` if the row holds one that cannot be read."""
        return _recurrence(
            self.kind, self.expression, self.timezone, self.anchor_at, self.start_at, self.end_at
        )


@lru_cache(maxsize=4096)
def _recurrence(
    kind: Any,
    expression: str,
    timezone: str,
    anchor: dt.datetime | None,
    start_at: dt.datetime | None,
    end_at: dt.datetime | None,
) -> Recurrence:
    # Checking a rule costs more than asking it; the same one comes due again and again.
    return Recurrence(
        kind=kind,
        expression=expression,
        timezone=timezone,
        anchor=anchor,
        start_at=start_at,
        end_at=end_at,
    )


def due(
    now: dt.datetime, limit: int, after: tuple[dt.datetime, int] | None = None
) -> list[DueSchedule]:
    """Enabled schedules whose time has come, earliest first.

    `after` is the last one of the page before: a schedule that cannot be dispatched does not
    hide those behind it. One that waits after a failure is left out.
    """
    if speaks_arrays():
        return _due_quickly(now, limit, after)
    query = Schedule.objects.filter(
        Q(retry_dispatch_at__isnull=True) | Q(retry_dispatch_at__lte=now),
        enabled=True,
        next_run_at__lte=now,
    )
    if after is not None:
        at, row = after
        query = query.filter(next_run_at__gte=at).filter(Q(next_run_at__gt=at) | Q(id__gt=row))
    rows = query.order_by("next_run_at", "id").values_list(*_FACTS)[:limit]
    return [DueSchedule(*row) for row in rows]


def _due_quickly(
    now: dt.datetime, limit: int, after: tuple[dt.datetime, int] | None
) -> list[DueSchedule]:
    """The same question without the ORM, whose work would take longer than the database's.

    Instants come as whole microseconds: the driver needs ten times as long to read a timestamp.
    """
    values: list[Any] = [conf.get().NAMESPACE, now, now]
    if after is not None:
        values += [after[0], after[0], after[1]]
    with connection().cursor() as cursor:
        cursor.execute(_due_statement(after is not None), [*values, limit])
        rows = cursor.fetchall()
    return [_read(row) for row in rows]


@cache
def _due_statement(is_further_page: bool) -> str:
    columns = ", ".join(
        f"(EXTRACT(EPOCH FROM {name}) * 1000000)::bigint" if name in _INSTANTS else name
        for name in _FACTS
    )
    further = " AND next_run_at >= %s AND (next_run_at > %s OR id > %s)" if is_further_page else ""
    return (
        f"SELECT {columns} FROM {Schedule._meta.db_table}"  # noqa: S608  # names of ours
        " WHERE namespace = %s AND enabled AND next_run_at <= %s"
        f" AND (retry_dispatch_at IS NULL OR retry_dispatch_at <= %s){further}"
        " ORDER BY next_run_at, id LIMIT %s"
    )


def _read(row: Sequence[Any]) -> DueSchedule:
    values = list(row)
    for place in _INSTANT_PLACES:
        if values[place] is not None:
            values[place] = _instant(values[place])
    values[_INPUT_PLACE] = codec.read(json.loads(values[_INPUT_PLACE]))
    return DueSchedule._make(values)


@lru_cache(maxsize=4096)
def _instant(microseconds: int) -> dt.datetime:
    # What is due at the same time shares most of its instants.
    return _EPOCH + _MICROSECOND * microseconds


def earliest_retry(now: dt.datetime) -> dt.datetime | None:
    """When the first of the schedules that wait after a failure is to be tried again."""
    return (
        Schedule.objects.filter(enabled=True, next_run_at__lte=now, retry_dispatch_at__gt=now)
        .order_by("retry_dispatch_at")
        .values_list("retry_dispatch_at", flat=True)
        .first()
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Schedules that failed alike: the same error, as often as this before."""

    ids: tuple[int, ...]
    failures: int
    error: str
    retry_at: dt.datetime


def record_failures(failures: Iterable[Failure], epoch: int) -> frozenset[int]:
    """Count one more failure for each schedule and let it wait; which of them still stood so.

    A row that somebody holds is passed over: the others must not wait for it.
    """
    counted: set[int] = set()
    with short_transaction():
        if not leader.is_current(epoch):
            raise LeadershipLost
        for failure in failures:
            rows = Schedule.objects.filter(
                id__in=failure.ids, failures=failure.failures, enabled=True
            )
            free = list(locked(rows.order_by("id")).values_list("id", flat=True))
            Schedule.objects.filter(id__in=free).update(
                failures=min(failure.failures + 1, _MOST_FAILURES),
                error=failure.error,
                retry_dispatch_at=failure.retry_at,
            )
            counted |= set(free)
    return frozenset(counted)


def give_up(schedule: DueSchedule, *, error: str, epoch: int) -> bool:
    """Stop a schedule whose rule cannot be read: it has no next run until it is mended."""
    with short_transaction():
        if not leader.is_current(epoch):
            return False
        row = Schedule.objects.filter(
            id=schedule.id, version=schedule.version, next_run_at=schedule.next_run_at
        )
        if not locked(row).values_list("id", flat=True):
            return False  # whoever holds it may be mending the rule
        return bool(row.update(next_run_at=None, failures=0, retry_dispatch_at=None, error=error))


def end_pauses(ids: Sequence[int], now: dt.datetime) -> int:
    """Clear the pauses of these schedules whose end has come, as far as nobody holds the row."""
    with short_transaction():
        over = locked(Schedule.objects.filter(id__in=ids, paused_until__lte=now).order_by("id"))
        return Schedule.objects.filter(id__in=list(over.values_list("id", flat=True))).update(
            paused_at=None, paused_until=None, pause_note="", paused_by="", version=F("version") + 1
        )


def clear_disabled() -> int:
    """A disabled schedule has no next run, whichever way it was disabled.

    Otherwise one that is enabled again behind our back would find a next run in the past and
    make up for all the time that it was off.
    """
    return Schedule.objects.filter(enabled=False, next_run_at__isnull=False).update(
        next_run_at=None, failures=0, retry_dispatch_at=None
    )


def page(after: int, limit: int, *, only_zoned: bool = False) -> list[Schedule]:
    """Enabled schedules by id, those without a next run included.

    `only_zoned`: only those whose slots depend on the clocks of a place.
    """
    query = Schedule.objects.filter(enabled=True, id__gt=after)
    if only_zoned:
        query = query.filter(kind=Schedule.Kind.CRON).exclude(timezone="UTC")
    return list(query.order_by("id")[:limit])


def without_next_run(limit: int) -> list[Schedule]:
    """Enabled schedules that have no next run: ended ones, and ones enabled behind our back."""
    query = Schedule.objects.filter(enabled=True, next_run_at__isnull=True)
    return list(query.order_by("-id")[:limit])


def set_next_runs(wanted: Iterable[tuple[Schedule, dt.datetime | None]], epoch: int) -> int:
    """Put next runs right, where the schedule has not changed meanwhile."""
    changed = 0
    with short_transaction():
        if not leader.is_current(epoch):
            return 0
        for schedule, next_run_at in wanted:
            seen: dict[str, Any] = {"next_run_at": schedule.next_run_at}
            if schedule.next_run_at is None:
                seen = {"next_run_at__isnull": True}
            changed += Schedule.objects.filter(
                id=schedule.id, version=schedule.version, enabled=True, **seen
            ).update(next_run_at=next_run_at)
    return changed
