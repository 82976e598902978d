"""The leader's row: who may dispatch, under which epoch, until when.

The protocol, in the database's own time:

* `look` reads the row. A candidate may `mint` the next epoch when the lease in the row has run
  out, or at once when it holds the lease in Redis. Minting names the epoch that was seen, so of
  two candidates one wins.
* `renew` and `resign` name epoch and holder. Zero rows means that another term has begun.
* Every write of the leader carries `EXISTS (leader with my epoch)`. The row is not locked for
  it: a leader that is stopped in the middle of a write must not block its successor. What the
  tiny gap could let through is refused by the slot's uniqueness and by the schedule's own
  conditions.

The epoch is raised here and nowhere else, so that no number is ever given out twice.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from sync_scheduler import conf, failpoints
from sync_scheduler.models import Leader, Schedule, Term
from sync_scheduler.store.locking import (
    DatabaseNow,
    alias,
    connection,
    database_now,
    repeat_on_deadlock,
    speaks_arrays,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The leader's row as it was seen, and what the database's clock said."""

    epoch: int
    holder: str
    expires_at: dt.datetime | None
    database_now: dt.datetime

    @property
    def is_vacant(self) -> bool:
        return self.expires_at is None or self.expires_at <= self.database_now


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The term holds. `earliest` is when the next schedule is due, None if there is none."""

    database_now: dt.datetime
    earliest: dt.datetime | None


def look() -> Standing:
    """Read the row, and make it if this namespace has none yet."""
    namespace = conf.get().NAMESPACE
    query = Leader.objects.using(alias()).filter(namespace=namespace)
    fields = ("epoch", "holder", "expires_at")
    row = query.annotate(now=DatabaseNow()).values_list(*fields, "now").first()
    if row is None:
        try:
            with transaction.atomic(using=alias()):
                Leader.objects.using(alias()).create(namespace=namespace)
        except IntegrityError:
            pass  # another node was quicker
        return look()
    epoch, holder, expires_at, now = row
    return Standing(epoch=epoch, holder=holder, expires_at=expires_at, database_now=now)


def mint(
    *, seen: Standing, holder: str, lease_seconds: float, is_sure: bool, because: str
) -> int | None:
    """Begin the next term; its epoch, or None if somebody else was quicker.

    `is_sure` says that this node holds the lease in Redis and need not wait for the row's.
    """
    now = database_now()
    expires_at = now + dt.timedelta(seconds=lease_seconds)
    free = Q() if is_sure else Q(expires_at__isnull=True) | Q(expires_at__lte=now)
    row = Leader.objects.using(alias()).filter(
        free, namespace=conf.get().NAMESPACE, epoch=seen.epoch
    )
    # A statement of its own: who is stopped between it and the next must not hold the row.
    changed = repeat_on_deadlock(
        lambda: row.update(epoch=F("epoch") + 1, holder=holder, since=now, expires_at=expires_at)
    )
    if changed == 0:
        return None
    epoch = seen.epoch + 1
    failpoints.hit("after_mint_before_record")
    # The one before had proof until its lease ran out, and no longer.
    repeat_on_deadlock(lambda: _end_terms(epoch, min(now, seen.expires_at or now), because))
    Term.objects.create(epoch=epoch, holder=holder, started_at=now)
    if not is_current(epoch):
        # Somebody has taken over in between, and could not end what was not recorded yet.
        repeat_on_deadlock(lambda: _end_terms(epoch + 1, expires_at, "expired"))
    return epoch


def _end_terms(before: int, ended_at: dt.datetime, reason: str) -> int:
    open_terms = Term.objects.filter(epoch__lt=before, ended_at__isnull=True)
    return open_terms.update(ended_at=ended_at, reason=reason)


def renew(*, epoch: int, holder: str, lease_seconds: float) -> Renewal | None:
    """Extend the term; None if it is over. Also answers when the next schedule is due.

    The answer rides on the renewal because an idle leader should cost few statements.
    """
    if speaks_arrays():
        return _renew_in_one(epoch, holder, lease_seconds)
    now = database_now()
    expires_at = now + dt.timedelta(seconds=lease_seconds)
    if not _mine(epoch, holder).update(expires_at=expires_at):
        return None
    return Renewal(database_now=now, earliest=earliest_due(now))


def _renew_in_one(epoch: int, holder: str, lease_seconds: float) -> Renewal | None:
    leader, schedule = Leader._meta.db_table, Schedule._meta.db_table
    statement = f"""
        UPDATE {leader} SET expires_at = CLOCK_TIMESTAMP() + MAKE_INTERVAL(secs => %s)
        WHERE namespace = %s AND epoch = %s AND holder = %s
        RETURNING CLOCK_TIMESTAMP(), (
            SELECT next_run_at FROM {schedule}
            WHERE namespace = %s AND enabled AND next_run_at IS NOT NULL
                AND (retry_dispatch_at IS NULL OR retry_dispatch_at <= CLOCK_TIMESTAMP())
            ORDER BY next_run_at LIMIT 1)
    """  # noqa: S608  # table names are ours
    namespace = conf.get().NAMESPACE
    with connection().cursor() as cursor:
        cursor.execute(statement, [lease_seconds, namespace, epoch, holder, namespace])
        row = cursor.fetchone()
    return None if row is None else Renewal(database_now=row[0], earliest=row[1])


def earliest_due(now: dt.datetime, *, only_later: bool = False) -> dt.datetime | None:
    """When the next schedule is due; may lie in the past. One step into the index.

    `only_later` leaves out those that are due now.
    """
    when = Q(next_run_at__gt=now) if only_later else Q(next_run_at__isnull=False)
    return (
        Schedule.objects.filter(
            Q(retry_dispatch_at__isnull=True) | Q(retry_dispatch_at__lte=now),
            when,
            enabled=True,
        )
        .order_by("next_run_at")
        .values_list("next_run_at", flat=True)
        .first()
    )


def resign(*, epoch: int, holder: str, reason: str) -> bool:
    """End the term now, so that others need not wait for its lease. False if it was over."""
    if not _mine(epoch, holder).exists():
        return False
    now = database_now()
    # The reason first: once the row is free, whoever takes it ends what is not ended yet.
    Term.objects.filter(epoch=epoch, ended_at__isnull=True).update(
        ended_at=now, reason=reason[:200]
    )
    return bool(_mine(epoch, holder).update(expires_at=now, holder=""))


def is_current(epoch: int) -> bool:
    """Whether this epoch is still the current one; the fence of multi-statement writes."""
    return (
        Leader.objects.using(alias()).filter(namespace=conf.get().NAMESPACE, epoch=epoch).exists()
    )


def _mine(epoch: int, holder: str) -> QuerySet[Leader]:
    return Leader.objects.using(alias()).filter(
        namespace=conf.get().NAMESPACE, epoch=epoch, holder=holder
    )
