"""Pulse: does anything dispatch, and if not, since when."""

from __future__ import annotations

import dataclasses
import datetime as dt

from sync_scheduler import conf
from sync_scheduler.models import Leader
from sync_scheduler.store.locking import DatabaseNow, alias


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Who leads, by the database's clock. `since`: the term's begin, or when the last one ended."""

    holder: str = ""
    epoch: int = 0
    since: dt.datetime | None = None
    expires_at: dt.datetime | None = None
    database_now: dt.datetime | None = None

    @property
    def is_alive(self) -> bool:
        return bool(
            self.holder
            and self.expires_at is not None
            and self.database_now is not None
            and self.expires_at > self.database_now
        )

    @property
    def has_ever_led(self) -> bool:
        return self.epoch > 0

    @property
    def is_dead(self) -> bool:
        """Something has led before, and nothing does now."""
        return self.has_ever_led and not self.is_alive

    @property
    def silent_since(self) -> dt.datetime | None:
        return None if self.is_alive else self.expires_at


def feel() -> Pulse:
    """One read of one row."""
    row = (
        Leader.objects.using(alias())
        .filter(namespace=conf.get().NAMESPACE)
        .annotate(database_now=DatabaseNow())
        .values_list("holder", "epoch", "since", "expires_at", "database_now")
        .first()
    )
    if row is None:
        return Pulse()
    holder, epoch, since, expires_at, now = row
    return Pulse(holder=holder, epoch=epoch, since=since, expires_at=expires_at, database_now=now)
