"""Runs that nobody works on any more: of nodes that died, and far beyond their timeout."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from itertools import islice

from sync_scheduler import clock, conf
from sync_scheduler.coordination import joins
from sync_scheduler.intake.endings import tell, tell_finished
from sync_scheduler.intake.ready import announce
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Attempt
from sync_scheduler.store import leftovers, nodes, outcomes, strays, upkeep
from sync_scheduler.store.claims import Claim

logger = logging.getLogger(__name__)

_BATCH = 500


class Contact:
    """How long this process has been in unbroken contact with the database.

    After an outage of the database every node looks silent, and none of them is dead. Only who
    could have reported all the time may say that others have not.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._last = 0.0

    def touch(self) -> None:
        now = clock.boot_seconds()
        # A gap means that this process itself was stopped or could not ask.
        if self._since is None or now - self._last > 3 * conf.get().SWEEP_INTERVAL:
            self._since = now
        self._last = now

    def lose(self) -> None:
        self._since = None

    @property
    def unbroken_seconds(self) -> float:
        return 0.0 if self._since is None else self._last - self._since


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    taken_back: int = 0
    orphans: int = 0


def sweep(now: dt.datetime, contact: Contact) -> Swept:
    """Take back what dead nodes held, and end what is older than its timeout and a grace time."""
    settings = conf.get()
    taken = 0
    silences = nodes.silences()
    # If we stood still ourselves before this look, so may all the others have.
    contact.touch()
    for silence in silences:
        if silence.seconds < 2 * settings.NODE_HEARTBEAT:
            continue
        if contact.unbroken_seconds >= settings.NODE_LEASE:
            taken += _take_back(silence)
    return Swept(taken_back=taken, orphans=_end_orphans(now))


def bury_unknown(now: dt.datetime, contact: Contact) -> int:
    """End Runs whose job nobody has known for the grace time, and keep them as dead letters."""
    if contact.unbroken_seconds < conf.get().NODE_LEASE:
        return 0  # after an outage every worker looks dead
    ended = strays.bury_unknown(now)
    if ended:
        logger.error(
            "%d runs of jobs that no node knows were ended", len(ended), extra={"event": "strays"}
        )
        joins.ended([stray.id.hex for stray in ended])
        for stray in ended:
            tell_finished(stray.id, stray.job, State.FAILED, attempt=stray.attempt, node="")
    return len(ended)


def _take_back(silence: nodes.Silence) -> int:
    recorded = nodes.take_back(silence)
    if recorded.accepted:
        logger.warning(
            "node %s has been silent for %.0f s; %d runs are taken up again",
            silence.node,
            silence.seconds,
            len(recorded.accepted),
            extra={"event": "node_lost", "node": silence.node},
        )
        announce(leftovers.still_ready(list(recorded.accepted)))
    if recorded.promoted:
        announce(recorded.promoted)
    tell(recorded.endings)
    return len(recorded.accepted)


def _end_orphans(now: dt.datetime) -> int:
    grace = dt.timedelta(seconds=conf.get().ORPHAN_GRACE)
    found, ended = upkeep.orphans(now, grace), 0
    while claims := list(islice(found, _BATCH)):
        recorded = outcomes.record([_orphaned(claim, now) for claim in claims])
        announce(recorded.promoted)
        tell(recorded.endings)
        ended += len(recorded.accepted)
    return ended


def _orphaned(claim: Claim, now: dt.datetime) -> outcomes.Ending:
    return outcomes.Ending(
        claim=claim,
        node="",
        status=State.TIMED_OUT,
        outcome=Attempt.Outcome.TIMED_OUT,
        started_at=claim.started_at,
        finished_at=now,
        error="It ran longer than its timeout and a grace time, and nobody ended it.",
        reason=Reason.ORPHANED,
    )
