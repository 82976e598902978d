"""Ready Runs whose job no living worker knows: kept as dead letters after a grace time."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from sync_scheduler import conf
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import DeadLetter, Node, Run
from sync_scheduler.store.locking import releasing_transaction

_BATCH = 500


class Stray(NamedTuple):
    """A Run that was ended because nobody could run it."""

    id: uuid.UUID
    job: str
    attempt: int


def jobs_of_living_workers(now: dt.datetime) -> frozenset[str] | None:
    """What can be run somewhere; None when no worker lives, and so nothing can be said."""
    since = now - dt.timedelta(seconds=conf.get().NODE_LEASE)
    workers = Node.objects.filter(stopped_at__isnull=True, heartbeat_at__gte=since, slots__gt=0)
    known = list(workers.values_list("jobs", flat=True))
    return frozenset(name for names in known for name in names) if known else None


def bury_unknown(now: dt.datetime) -> list[Stray]:
    """End Runs that have been ready for the grace time and that no living worker could run."""
    known = jobs_of_living_workers(now)
    if known is None:
        return []
    before = now - dt.timedelta(seconds=conf.get().UNKNOWN_JOB_GRACE)
    overdue = Run.objects.filter(
        status=State.SUBMITTED, waiting_for__isnull=True, run_at__lt=before, submitted_at__lt=before
    ).order_by()
    unknown = set(overdue.values_list("job", flat=True).distinct()) - known
    ended: list[Stray] = []
    for job in sorted(unknown):
        rows = list(overdue.filter(job=job).order_by("id")[:_BATCH])
        ended += _bury(rows, now)
    return ended


def _bury(rows: Sequence[Run], now: dt.datetime) -> list[Stray]:
    ended = []
    with releasing_transaction():
        for run in rows:
            error = (
                f"No node has a job named {run.job!r}. Declare it, list the name in the aliases"
                " of the job that replaced it, or discard this."
            )
            changed = Run.objects.filter(id=run.id, status=State.SUBMITTED, token=run.token).update(
                status=State.FAILED, finished_at=now, error=error, reason=Reason.UNKNOWN_JOB.value
            )
            if not changed:
                continue
            ended.append(Stray(run.id, run.job, run.attempt))
            DeadLetter.objects.create(
                kind=DeadLetter.Kind.RUN,
                run_id=run.id,
                schedule_id=run.schedule_id,
                schedule_name=run.schedule_name,
                job=run.job,
                slot=run.slot,
                reason=Reason.UNKNOWN_JOB.value,
                error=error,
                created_at=now,
            )
    return ended
