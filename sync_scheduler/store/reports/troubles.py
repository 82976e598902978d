"""What the rows say is wrong: queues that nobody serves, jobs that nobody knows, late schedules."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Sequence

from django.db.models import Q

from sync_scheduler.models import DeadLetter, Node, Schedule

_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The first few, and how many there are."""

    first: tuple[str, ...]
    number: int

    def __bool__(self) -> bool:
        return self.number > 0

    def __str__(self) -> str:
        shown = ", ".join(repr(name) for name in self.first)
        more = self.number - len(self.first)
        return f"{shown} and {more} more" if more > 0 else shown


def names(found: Iterable[str]) -> Names:
    listed = sorted(found)
    return Names(first=tuple(listed[:_SHOWN]), number=len(listed))


def workers(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if "work" in node.roles]


def unserved(queues: Iterable[str], nodes: Sequence[Node]) -> Names:
    """Queues that no living worker serves. A worker without a list serves all."""
    serving = workers(nodes)
    if any(not node.queues for node in serving):
        return names(())
    served = {queue for node in serving for queue in node.queues}
    return names(set(queues) - served)


def known_jobs(nodes: Iterable[Node]) -> frozenset[str]:
    """Names of jobs that at least one living worker can run."""
    return frozenset(name for node in workers(nodes) for name in node.jobs)


def scheduled_jobs() -> frozenset[str]:
    """Names of jobs that enabled schedules want to run."""
    rows = Schedule.objects.filter(enabled=True).order_by().values_list("job", flat=True)
    return frozenset(rows.distinct())


def overdue(now: dt.datetime, grace_seconds: float) -> Names:
    """Enabled schedules whose time came longer ago than the grace and that were not dispatched."""
    late = Schedule.objects.filter(
        Q(paused_at__isnull=True) | Q(paused_until__lte=now),
        enabled=True,
        next_run_at__lt=now - dt.timedelta(seconds=grace_seconds),
    )
    return names(late.order_by().values_list("name", flat=True))


def in_error() -> Names:
    """Enabled schedules whose last dispatch failed, or that cannot be read."""
    rows = Schedule.objects.filter(enabled=True).exclude(error="")
    return names(rows.order_by().values_list("name", flat=True))


def has_schedules() -> bool:
    return Schedule.objects.filter(enabled=True).exists()


def open_letters() -> int:
    return DeadLetter.objects.filter(resolution=DeadLetter.Resolution.OPEN).count()
