"""Pause and resume a queue, and tell the workers."""

from __future__ import annotations

from django.db import transaction

from sync_scheduler import conf
from sync_scheduler.coordination import control
from sync_scheduler.errors import InvalidInput
from sync_scheduler.store import queues


def pause(name: str, note: str = "") -> None:
    """Let nothing of this queue start; what runs goes on, what is submitted waits."""
    if not 0 < len(name) <= 100:
        raise InvalidInput("A queue's name must be 1 to 100 characters.")
    queues.pause(name, note)
    _tell()


def resume(name: str) -> bool:
    """Let it go on. False: it was not paused."""
    resumed = queues.resume(name)
    _tell()
    return resumed


def _tell() -> None:
    transaction.on_commit(control.tell_queues_changed, using=conf.get().DATABASE, robust=True)
