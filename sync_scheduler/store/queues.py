"""Queues that somebody has paused: no worker takes from them until they are resumed."""

from __future__ import annotations

from sync_scheduler import conf
from sync_scheduler.models import Queue
from sync_scheduler.store.locking import database_now

_NOTE_LIMIT = 500


def pause(name: str, note: str) -> None:
    Queue.objects.update_or_create(
        namespace=conf.get().NAMESPACE,
        name=name,
        defaults={"paused_at": database_now(), "note": note[:_NOTE_LIMIT]},
    )


def resume(name: str) -> bool:
    """False: it was not paused."""
    deleted, _ = Queue.objects.filter(name=name, paused_at__isnull=False).delete()
    return bool(deleted)


def paused() -> frozenset[str]:
    found = Queue.objects.filter(paused_at__isnull=False)
    return frozenset(found.values_list("name", flat=True))
