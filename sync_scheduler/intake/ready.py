"""Tell workers, after the commit, that something may start."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from functools import partial
from typing import Protocol
from uuid import UUID

from django.db import transaction

from sync_scheduler import conf, failpoints
from sync_scheduler.coordination import announcer, local
from sync_scheduler.coordination.ready_queue import Ready


class ReadyLike(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def run_at(self) -> dt.datetime: ...


def announce(rows: Collection[ReadyLike]) -> None:
    """Announce rows that are committed."""
    failpoints.hit("after_commit_before_push")
    if rows and conf.get().uses_redis:
        announcer.announce_later(len(rows), partial(_entries, rows))
    local.ready_here()


def _entries(rows: Collection[ReadyLike]) -> list[Ready]:
    return [
        Ready(id=row.id.hex, queue=row.queue, priority=row.priority, run_at=row.run_at)
        for row in rows
    ]


def announce_on_commit(rows: Collection[ReadyLike]) -> None:
    """Announce when the caller's transaction commits; at once if there is none.

    `robust`: whatever goes wrong in telling, the caller's commit stands. (A lambda, because Django
    asks for the name of what went wrong, and a partial has none.)
    """
    transaction.on_commit(lambda: announce(rows), using=conf.get().DATABASE, robust=True)
