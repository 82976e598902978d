"""What the leader looks after: Runs that nobody was told about, orphans, and whether any exist."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator

from django.db.models import Exists

from sync_scheduler import conf, lifecycle
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Leader, Run
from sync_scheduler.store.claims import FACTS, Claim
from sync_scheduler.store.locking import alias
from sync_scheduler.store.waiting import ReadyRow

_PAGE = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Which kinds of rows exist at all; an idle leader need not ask further."""

    has_ready: bool
    has_waiting: bool
    has_running: bool


def probe(ready_before: dt.datetime) -> Findings:
    """One statement, a step into an index for each kind."""
    active = Run.objects.filter(status__in=lifecycle.ACTIVE)
    ready = active.filter(
        status=State.SUBMITTED, waiting_for__isnull=True, run_at__lte=ready_before
    )
    row = (
        Leader.objects.using(alias())
        .filter(namespace=conf.get().NAMESPACE)
        .values_list(
            Exists(ready),
            Exists(active.filter(status=State.SUBMITTED, waiting_for__isnull=False)),
            Exists(active.filter(status=State.RUNNING)),
        )
        .first()
    )
    has_ready, has_waiting, has_running = row or (False, False, False)
    return Findings(has_ready=has_ready, has_waiting=has_waiting, has_running=has_running)


def ready_queues() -> list[str]:
    """The queues in which Runs are ready."""
    ready = Run.objects.filter(status=State.SUBMITTED, waiting_for__isnull=True)
    return sorted(ready.order_by().values_list("queue", flat=True).distinct())


def ready_in(queue: str, before: dt.datetime, limit: int) -> list[ReadyRow]:
    """Ready Runs of a queue that have been so for a while, best first."""
    ready = Run.objects.filter(
        status=State.SUBMITTED, waiting_for__isnull=True, queue=queue, run_at__lte=before
    ).order_by("-priority", "run_at", "id")
    rows = ready.values_list("id", "queue", "priority", "run_at")[:limit]
    return [ReadyRow(*row) for row in rows]


def orphans(now: dt.datetime, grace: dt.timedelta) -> Iterator[Claim]:
    """Running Runs that are older than their timeout and a grace time.

    Paged by id over all that run: those which are not over yet cannot hide those which are.
    """
    last: uuid.UUID | None = None
    while True:
        query = Run.objects.filter(
            status=State.RUNNING, timeout_seconds__isnull=False, started_at__lte=now - grace
        )
        if last is not None:
            query = query.filter(id__gt=last)
        page = [Claim(*row) for row in query.order_by("id").values_list(*FACTS)[:_PAGE]]
        for claim in page:
            if claim.started_at + dt.timedelta(seconds=claim.timeout_seconds or 0) + grace <= now:
                yield claim
        if len(page) < _PAGE:
            return
        last = page[-1].id
