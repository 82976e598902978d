"""Leadership: one node's part in deciding who dispatches.

Redis says how soon, the database says who. A node leads while it holds positive proof that is
younger than the lease, counted from when the renewal was sent; no answer and no exception is
ever taken for a yes. It steps down when the row shows another epoch, when Redis shows another
holder, when its proof grows old, when its clock is wrong, or when the work that it leads for
does not get done.

One thread calls `step`; everybody else reads `term`.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError

from sync_scheduler import clock, conf, signals
from sync_scheduler.coordination import client, election, wakeup
from sync_scheduler.dispatch.term import Term
from sync_scheduler.dispatch.time_offset import TimeOffset
from sync_scheduler.models import Leader
from sync_scheduler.store import leader

logger = logging.getLogger(__name__)

DATABASE_TROUBLE = (DatabaseError, InterfaceError)
LARGEST_OFFSET_SECONDS = 2.0
# Beside Redis the row is renewed before this part of the lease is over: seldom, but with time to
# try again.
_ROW_RENEWAL = 0.7


def nothing_wrong() -> str:
    return ""


class Leadership:
    """`find_fault` says why this node should not lead; empty when nothing is wrong."""

    def __init__(self, node: str, find_fault: Callable[[], str] = nothing_wrong) -> None:
        self.node = node
        self.offset = TimeOffset()
        self._earliest: dt.datetime | None = None
        self._find_fault = find_fault
        self._term: Term | None = None
        self._row_renewal_due = 0.0
        self._refusal = ""

    @property
    def term(self) -> Term | None:
        """The term of this node while its proof is fresh, otherwise None."""
        term = self._term
        return term if term is not None and term.is_trusted else None

    def take_earliest(self) -> dt.datetime | None:
        """When the next schedule is due, if a renewal has seen that since the last call."""
        earliest, self._earliest = self._earliest, None
        return earliest

    def step(self) -> float:
        """Renew or campaign once; returns how many seconds to wait before the next step."""
        settings = conf.get()
        fault = self._find_fault()
        if self._term is None:
            if fault:
                self._refuse(fault)
            elif self._campaign():
                return settings.LEADER_HEARTBEAT
            # Jitter keeps candidates from colliding; the bound keeps take-overs quick.
            return settings.LEADER_LEASE / 4 * random.uniform(0.8, 1.0)  # noqa: S311
        if fault:
            self.resign(fault)
        else:
            self._renew(self._term)
        return settings.LEADER_HEARTBEAT

    def resign(self, reason: str) -> None:
        """Stop leading and tell the others, so that they need not wait for the lease."""
        term = self._term
        if term is None:
            return
        self._step_down(reason)
        try:
            leader.resign(epoch=term.epoch, holder=self.node, reason=reason)
        except DATABASE_TROUBLE:
            logger.warning("the term's end could not be stored", exc_info=True)
        self._give_up_redis_lease()
        wakeup.tell(wakeup.RESIGNED)

    # ------------------------------------------------------------------ becoming leader

    def _campaign(self) -> bool:
        settings = conf.get()
        holds_redis = self._hold_redis_lease() if settings.uses_redis else None
        if holds_redis is False:
            return False
        try:
            return self._mint(is_sure=holds_redis is True)
        except DATABASE_TROUBLE as error:
            self._refuse(f"the database does not answer ({type(error).__name__})")
            raise
        finally:
            if holds_redis and self._term is None:
                # Whoever cannot lead must not keep others from it.
                self._give_up_redis_lease()

    def _mint(self, *, is_sure: bool) -> bool:
        settings, sent, before = conf.get(), clock.boot_seconds(), clock.now()
        seen = leader.look()
        self.offset.measure(before, seen.database_now, clock.now())
        if self.offset.seconds_off > LARGEST_OFFSET_SECONDS:
            self._refuse(self._clock_fault())
            return False
        if not is_sure and not seen.is_vacant:
            return False
        epoch = leader.mint(
            seen=seen,
            holder=self.node,
            lease_seconds=settings.LEADER_LEASE,
            is_sure=is_sure,
            because="expired" if seen.is_vacant else "its Redis lease was lost",
        )
        if epoch is None:
            return False
        self._refusal = ""
        self._row_renewal_due = sent + settings.LEADER_LEASE * _ROW_RENEWAL
        self._term = Term(epoch=epoch, holder=self.node, trusted_until=_trust(sent))
        self._tell(epoch, leading=True, reason="")
        return True

    def _hold_redis_lease(self) -> bool | None:
        """Whether the Redis lease is ours; None: Redis cannot be asked."""
        try:
            return election.campaign(self.node, conf.get().LEADER_LEASE)
        except client.UNREACHABLE:
            return None

    def _give_up_redis_lease(self) -> None:
        if not conf.get().uses_redis:
            return
        try:
            election.resign(self.node)
        except client.UNREACHABLE:
            logger.info("Redis cannot be reached; its lease runs out by itself")

    # ------------------------------------------------------------------ staying leader

    def _renew(self, term: Term) -> None:
        settings = conf.get()
        is_redis_sure = False
        if settings.uses_redis:
            try:
                holder = election.renew(self.node, settings.LEADER_LEASE)
            except client.UNREACHABLE:
                pass  # the row decides alone
            else:
                if holder != self.node:
                    self._step_down(f"{holder} holds the Redis lease")
                    return
                is_redis_sure = True
        # With Redis on our side the row may be renewed less often; it must just not run out before
        # the next step, which with a long heartbeat is not soon.
        next_step = clock.boot_seconds() + settings.LEADER_HEARTBEAT
        if not is_redis_sure or next_step >= self._row_renewal_due:
            self._renew_row(term)
        if self._term is not None and not term.is_trusted:
            self._step_down("its lease ran out")

    def _renew_row(self, term: Term) -> None:
        settings, sent, before = conf.get(), clock.boot_seconds(), clock.now()
        try:
            renewal = leader.renew(
                epoch=term.epoch, holder=self.node, lease_seconds=settings.LEADER_LEASE
            )
        except DATABASE_TROUBLE:
            if not term.is_trusted:
                self._step_down("the database does not answer")
            raise
        if renewal is None:
            self._step_down("another term has begun")
            return
        term.extend(_trust(sent))
        self._row_renewal_due = sent + settings.LEADER_LEASE * _ROW_RENEWAL
        self._earliest = renewal.earliest
        self.offset.measure(before, renewal.database_now, clock.now())
        if self.offset.seconds_off > LARGEST_OFFSET_SECONDS:
            self.resign(self._clock_fault())

    def _step_down(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            term.end()
            self._tell(term.epoch, leading=False, reason=reason)

    # ------------------------------------------------------------------ saying so

    def _clock_fault(self) -> str:
        return f"its clock is {self.offset.seconds:+.1f} s off the database's"

    def _refuse(self, reason: str) -> None:
        if reason != self._refusal:
            self._refusal = reason
            logger.error(
                "%s does not lead: %s", self.node, reason, extra={"event": "leading_refused"}
            )

    def _tell(self, epoch: int, *, leading: bool, reason: str) -> None:
        logger.info(
            "%s %s term %d%s",
            self.node,
            "begins" if leading else "ends",
            epoch,
            f": {reason}" if reason else "",
            extra={"event": "leader_changed", "epoch": epoch},
        )
        signals.notify(
            signals.leader_changed,
            Leader,
            node=self.node,
            epoch=epoch,
            leading=leading,
            reason=reason,
        )


def _trust(sent: float) -> float:
    """Until when an answer proves that we lead: a little less than the lease, from the asking."""
    lease = conf.get().LEADER_LEASE
    return sent + lease - min(0.5, lease / 10)
