"""What the leader does beside dispatching, each thing at its own pace."""

from __future__ import annotations

import datetime as dt
import logging

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client, tenancy
from sync_scheduler.dispatch import reconcile, sweep
from sync_scheduler.dispatch.leadership import Leadership
from sync_scheduler.dispatch.mend import Mender
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.dispatch.term import Term
from sync_scheduler.processes.progress import Progress
from sync_scheduler.store import installation, upkeep

logger = logging.getLogger(__name__)

_MEND_SECONDS = 120.0
# Longer than this at a stretch, and what else is due would come too late.
_PRUNE_SECONDS = 1.0


class Housekeeping:
    """One step does whatever has become due. Nodes that do not lead only keep in contact."""

    def __init__(self, leadership: Leadership, progress: Progress) -> None:
        self._leadership = leadership
        self._progress = progress
        self._contact = sweep.Contact()
        self._pruner = Pruner()
        self._mender = Mender()
        self._due: dict[str, float] = {}
        self._term: Term | None = None

    def step(self) -> float:
        """Returns how many seconds to wait before the next step."""
        settings = conf.get()
        pause = min(settings.RECONCILE_INTERVAL, settings.SWEEP_INTERVAL)
        now = self._leadership.offset.database_time()
        found = upkeep.probe(now - reconcile.GRACE)
        self._contact.touch()
        if settings.uses_redis and self._is_due("tenancy", tenancy.MARK_SECONDS / 4):
            self._keep_the_namespace()
        term = self._leadership.term
        if term is None:
            return min(pause, settings.LEADER_LEASE)
        if term is not self._term:
            # A new term looks at everything at once.
            self._term, self._due = term, {}
        if self._is_due("reconcile", settings.RECONCILE_INTERVAL):
            reconcile.reconcile(now, found)
        # What waits may wait for a handler of a node that is lost, though nothing runs.
        if (found.has_running or found.has_waiting) and self._is_due(
            "sweep", settings.SWEEP_INTERVAL
        ):
            sweep.sweep(now, self._contact)
        if self._is_due("mend", _MEND_SECONDS):
            self._mender.mend(now, term.epoch)
            sweep.bury_unknown(now, self._contact)
        if self._is_due("prune", settings.PRUNE_INTERVAL):
            self._prune(now, term)
        return pause

    def _keep_the_namespace(self) -> None:
        """Renew the mark by which another installation sees that the namespace is in use."""
        mine = installation.identify()
        try:
            holder = tenancy.occupy(mine)
        except client.UNREACHABLE:
            return
        if holder != mine:
            logger.error(
                "another installation uses the namespace %r of Redis at %s; give one of the two"
                " a NAMESPACE of its own",
                conf.get().NAMESPACE,
                client.shown_url(),
                extra={"event": "namespace_shared"},
            )

    def lose_contact(self) -> None:
        """The database could not be asked: whoever was silent meanwhile may be alive."""
        self._contact.lose()

    def _prune(self, now: dt.datetime, term: Term) -> None:
        until = clock.monotonic() + _PRUNE_SECONDS

        def may_go_on() -> bool:
            self._progress.work()
            return term.is_trusted and clock.monotonic() < until

        self._pruner.prune(now, may_go_on)
        if clock.monotonic() >= until:
            self._due["prune"] = 0.0  # there is more: go on with the next step

    def _is_due(self, what: str, seconds: float) -> bool:
        now = clock.monotonic()
        # A little early rather than a whole pause late.
        if now < self._due.get(what, 0.0) - seconds / 10:
            return False
        self._due[what] = now + seconds
        return True
