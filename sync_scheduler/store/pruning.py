"""How history goes: finished Runs with all that belongs to them, in small batches.

A schedule's watermark is not history: it stays, so that a slot whose Run has gone is still known
to have been done.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Collection

from django.db.models import Q

from sync_scheduler import failpoints
from sync_scheduler.jobs.limits import still_count
from sync_scheduler.models import Attempt, DeadLetter, Event, Gate, Node, Run, Step, Term
from sync_scheduler.store import installation
from sync_scheduler.store.locking import alias, locked, repeat_on_deadlock, short_transaction
from sync_scheduler.store.waiting import gates_in_use

BATCH = 1000
# Whoever comes to a limit meanwhile waits for its row, so only a few are held at a time.
_GATES = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Finished Runs that ended in (after, until], of these jobs, or of all but these."""

    until: dt.datetime
    after: dt.datetime | None = None
    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()

    def query(self) -> Q:
        # A cancelled Run whose handler is still at work keeps a place, and so its row.
        found = Q(finished_at__lte=self.until, waiting_for__isnull=True)
        if self.after is not None:
            found &= Q(finished_at__gt=self.after)
        if self.only is not None:
            found &= Q(job__in=self.only)
        if self.but:
            found &= ~Q(job__in=self.but)
        return found


def delete_runs(span: Span, limit: int = BATCH) -> int:
    """Delete one batch, oldest first; fewer than `limit` means that nothing is left."""

    oldest = Run.objects.filter(span.query()).order_by("finished_at")
    ids = list(oldest.values_list("id", flat=True)[:limit])

    def delete() -> None:
        with short_transaction():
            # What somebody holds is passed over and comes with the next batch.
            free = list(locked(oldest.filter(id__in=ids)).values_list("id", flat=True))
            _delete_with_children(free)

    if ids:
        repeat_on_deadlock(delete)
    return len(ids)


def _delete_with_children(ids: Collection[uuid.UUID]) -> None:
    for child in (Attempt, Step, Event):
        rows = child._default_manager.using(alias()).filter(run_id__in=ids)
        rows._raw_delete(alias())  # noqa: SLF001  # the collector would load every row first
    failpoints.hit("in_prune")
    DeadLetter.objects.filter(run_id__in=ids).update(run=None)
    Run.objects.filter(id__in=ids)._raw_delete(alias())  # noqa: SLF001


def delete_dead_letters(
    resolved_before: dt.datetime, created_before: dt.datetime, limit: int = BATCH
) -> int:
    """Letters that were dealt with, and open ones that nobody wanted for very long."""
    old = Q(resolved_at__lte=resolved_before) | Q(created_at__lte=created_before)
    ids = list(DeadLetter.objects.filter(old).order_by("id").values_list("id", flat=True)[:limit])
    return DeadLetter.objects.filter(id__in=ids).delete()[0] if ids else 0


def delete_nodes(silent_since: dt.datetime) -> int:
    return Node.objects.filter(heartbeat_at__lte=silent_since).delete()[0]


def delete_terms(ended_before: dt.datetime) -> int:
    return Term.objects.filter(ended_at__lte=ended_before).delete()[0]


def delete_gates(now: dt.datetime, after: int = 0) -> int | None:
    """Look at the next few limits, and delete those that nothing is counted against.

    A limit by a value of the input has a row for every value that there ever was. Whoever comes
    to one that has gone makes it anew. Returns where to go on, None at the end.
    """

    page = list(
        Gate.objects.filter(id__gt=after).order_by("id").values_list("id", flat=True)[:_GATES]
    )

    def delete() -> None:
        with short_transaction():
            free = locked(Gate.objects.filter(id__in=page).order_by("id"))
            rows = list(free.values_list("id", "name", "starts"))
            # In a statement of its own: what others have written before they let go is seen.
            busy = gates_in_use([name for _, name, _ in rows])
            idle = [
                pk
                for pk, name, starts in rows
                if name not in busy
                and not still_count(starts or (), now)
                and not installation.is_its_name(name)
            ]
            Gate.objects.filter(id__in=idle).delete()

    if page:
        repeat_on_deadlock(delete)
    return page[-1] if len(page) == _GATES else None
