"""Tell workers, after the commit, that something may start."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
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


def announce(rows: Iterable[ReadyLike]) -> None:
    """Announce rows that are committed."""
    failpoints.hit("after_commit_before_push")
    if conf.get().uses_redis:
        announcer.announce(
            [
                Ready(id=row.id.hex, queue=row.queue, priority=row.priority, run_at=row.run_at)
                for row in rows
            ]
        )
    local.ready_here()


def announce_on_commit(rows: Iterable[ReadyLike]) -> None:
    """Announce when the caller's transaction commits; at once if there is none.

    `robust`: whatever goes wrong in telling, the caller's commit stands.
    """
    transaction.on_commit(partial(announce, rows), using=conf.get().DATABASE, robust=True)
