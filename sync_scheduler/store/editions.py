"""Which editions of the time zone database the nodes read.

A node reports its edition when it starts, and keeps it for life: Python reads a zone once. While
nodes differ, the same rule may mean another instant on each of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from sync_scheduler import conf
from sync_scheduler.models import Node, Term
from sync_scheduler.store.locking import database_now


def living() -> dict[str, tuple[str, ...]]:
    """The editions of the nodes that report, and the names of those nodes."""
    since = database_now() - dt.timedelta(seconds=conf.get().NODE_LEASE)
    rows = Node.objects.filter(heartbeat_at__gte=since, stopped_at__isnull=True).order_by("name")
    found: dict[str, list[str]] = {}
    for name, edition in rows.values_list("name", "tzdata"):
        found.setdefault(edition, []).append(name)
    return {edition: tuple(names) for edition, names in found.items()}


def differing(nodes: Iterable[Node]) -> dict[str, str]:
    """Of these nodes, by name: a sentence for those that do not read the newest edition."""
    known = list(nodes)
    newest = max((node.tzdata for node in known), default="")
    return {
        node.name: f"It reads edition {node.tzdata or 'unknown'} of the time zone database,"
        f" others read {newest}; update tzdata there and restart it."
        for node in known
        if node.tzdata != newest
    }


def of_leader_before(epoch: int) -> str | None:
    """The edition by which the term before this one computed; None: nobody knows any more."""
    holder = (
        Term.objects.filter(epoch__lt=epoch)
        .order_by("-epoch")
        .values_list("holder", flat=True)
        .first()
    )
    if holder is None:
        return None
    return Node.objects.filter(name=holder).values_list("tzdata", flat=True).first()
