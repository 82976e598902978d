"""What has happened since a position, for those who watch live. It carries no payload.

A position names the moment of the last look and the newest rows seen then. A look goes a little
further back than the position, because a row may become visible after a later one: a change can
be told twice (it has the same `mark` then), but is not left out.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import uuid
from collections.abc import Iterator

from django.db.models import Max, QuerySet

from sync_scheduler import conf
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, Event, Run
from sync_scheduler.store.locking import alias, database_now

# Of each kind, in one look. Whoever watches a cluster that is busier than this reads the status.
LIMIT = 500
_OVERLAP = dt.timedelta(seconds=2)
_OVERLAP_ROWS = 200
# Nobody is told about older things than this, whatever position they come with.
_OLDEST = dt.timedelta(minutes=5)
_OLDEST_ROWS = 5000
_POSITION = re.compile(r"([0-9]{1,14})-([0-9]{1,18})-([0-9]{1,18})")
_MILLISECOND = dt.timedelta(milliseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    looked_at: dt.datetime
    attempt: int
    event: int

    def __str__(self) -> str:
        return f"{(self.looked_at - _EPOCH) // _MILLISECOND}-{self.attempt}-{self.event}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """What `str()` made; None for anything else."""
        found = _POSITION.fullmatch(text)
        if found is None:
            return None
        at, attempt, event = (int(part) for part in found.groups())
        return cls(looked_at=_EPOCH + at * _MILLISECOND, attempt=attempt, event=event)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`kind`: submitted, skipped, started, progress, retry or finished; `state`: as it is now."""

    kind: str
    run: uuid.UUID
    job: str
    schedule: str
    status: str
    attempt: int
    node: str
    at: dt.datetime
    progress: float | None = None

    @property
    def mark(self) -> tuple[str, uuid.UUID, int, dt.datetime]:
        return (self.kind, self.run, self.attempt, self.at)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose changes: those of one Run, of one schedule, or of everything."""

    run: uuid.UUID | None = None
    schedule: int | None = None

    def runs(self) -> QuerySet[Run]:
        query = Run.objects.all()
        if self.run is not None:
            query = query.filter(id=self.run)
        if self.schedule is not None:
            query = query.filter(schedule_id=self.schedule)
        return query

    def attempts(self) -> QuerySet[Attempt]:
        query = Attempt.objects.using(alias()).filter(run__namespace=conf.get().NAMESPACE)
        return query.filter(**self._of_run())

    def events(self) -> QuerySet[Event]:
        query = Event.objects.using(alias()).filter(run__namespace=conf.get().NAMESPACE)
        return query.filter(**self._of_run())

    def _of_run(self) -> dict[str, object]:
        given = {"run_id": self.run, "run__schedule_id": self.schedule}
        return {name: value for name, value in given.items() if value is not None}


EVERYTHING = Scope()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    changes: tuple[Change, ...]
    position: Position


def current_position() -> Position:
    """Where everything that is yet to happen begins."""
    return Position(
        looked_at=database_now(),
        attempt=Attempt.objects.using(alias()).aggregate(newest=Max("id"))["newest"] or 0,
        event=Event.objects.using(alias()).aggregate(newest=Max("id"))["newest"] or 0,
    )


def since(position: Position, scope: Scope = EVERYTHING) -> Look:
    """What has happened since then, oldest first, and where to go on. Eight queries."""
    following = current_position()
    start = max(position.looked_at - _OVERLAP, following.looked_at - _OLDEST)
    attempt = max(position.attempt - _OVERLAP_ROWS, following.attempt - _OLDEST_ROWS)
    event = max(position.event - _OVERLAP_ROWS, following.event - _OLDEST_ROWS)
    found = [
        *_births(scope, start),
        *_starts(scope, start),
        *_ends(scope, start),
        *_returns(scope, start, attempt),
        *_progress(scope, start, event),
    ]
    return Look(
        changes=tuple(sorted(found, key=lambda change: change.at)),
        position=following,
    )


def state_of(run: Run) -> Change:
    """How the Run stands, for a watcher who comes in the middle."""
    at = run.finished_at or run.started_at or run.submitted_at
    return dataclasses.replace(_of_run("state", run, at), progress=run.progress)


def _first_id(at: dt.datetime) -> uuid.UUID:
    """The smallest id that a Run born at this moment can have."""
    milliseconds = max((at - _EPOCH) // _MILLISECOND, 0)
    return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (0b10 << 62))


_FACTS = ("id", "job", "schedule_name", "status", "attempt", "node")


def _births(scope: Scope, start: dt.datetime) -> Iterator[Change]:
    rows = scope.runs().filter(id__gte=_first_id(start)).order_by("-id")
    for run in rows.only(*_FACTS, "submitted_at")[:LIMIT]:
        skipped = run.status == State.SKIPPED
        yield Change(
            kind="skipped" if skipped else "submitted",
            run=run.id,
            job=run.job,
            schedule=run.schedule_name,
            status=State.SKIPPED if skipped else State.SUBMITTED,
            attempt=0,
            node="",
            at=run.submitted_at,
        )


def _starts(scope: Scope, start: dt.datetime) -> Iterator[Change]:
    rows = scope.runs().filter(status=State.RUNNING, started_at__gte=start).order_by("-started_at")
    for run in rows.only(*_FACTS, "started_at", "submitted_at")[:LIMIT]:
        yield _of_run("started", run, run.started_at or run.submitted_at)


def _ends(scope: Scope, start: dt.datetime) -> Iterator[Change]:
    rows = scope.runs().filter(finished_at__gte=start).exclude(status=State.SKIPPED)
    newest = rows.order_by("-finished_at").only(*_FACTS, "finished_at", "submitted_at")
    for run in newest[:LIMIT]:
        yield _of_run("finished", run, run.finished_at or run.submitted_at)


def _of_run(kind: str, run: Run, at: dt.datetime) -> Change:
    return Change(
        kind=kind,
        run=run.id,
        job=run.job,
        schedule=run.schedule_name,
        status=run.status,
        attempt=run.attempt,
        node=run.node,
        at=at,
    )


def _returns(scope: Scope, start: dt.datetime, after: int) -> Iterator[Change]:
    # Whatever the attempt came to: with no time to try again it was the last.
    rows = scope.attempts().filter(id__gt=after, finished_at__gte=start, retry_at__isnull=False)
    for number, node, at, run, job, schedule in rows.order_by("-id").values_list(
        "number", "node", "finished_at", "run_id", "run__job", "run__schedule_name"
    )[:LIMIT]:
        yield Change(
            kind="retry",
            run=run,
            job=job,
            schedule=schedule,
            status=State.SUBMITTED,
            attempt=number,
            node=node,
            at=at,
        )


def _progress(scope: Scope, start: dt.datetime, after: int) -> Iterator[Change]:
    rows = scope.events().filter(id__gt=after, at__gte=start, kind="heartbeat")
    for attempt, node, at, data, run, job, schedule in rows.order_by("-id").values_list(
        "attempt", "node", "at", "data", "run_id", "run__job", "run__schedule_name"
    )[:LIMIT]:
        done = data.get("progress")
        yield Change(
            kind="progress",
            run=run,
            job=job,
            schedule=schedule,
            status=State.RUNNING,
            attempt=attempt,
            node=node,
            at=at,
            progress=float(done) if isinstance(done, int | float) else None,
        )
