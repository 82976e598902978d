"""Queues: those that somebody has paused, and how much waits in one."""

from __future__ import annotations

from sync_scheduler import conf
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Queue, Run
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


def holds_more_than(name: str, number: int) -> bool:
    """Whether more Runs than this wait in the queue. Reads one row more than that, at most.

    Ready Runs and those that wait for something are in indexes of their own.
    """
    found = Run.objects.filter(queue=name, status=State.SUBMITTED).order_by()
    ready = found.filter(waiting_for__isnull=True)[: number + 1].count()
    if ready > number:
        return True
    rest = number - ready
    return found.filter(waiting_for__isnull=False)[: rest + 1].count() > rest
