"""Nodes: who is alive, by the database's clock."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import uuid
from typing import Any

from django.db.models import Max, Q

from sync_scheduler import conf
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Attempt, Node, Run
from sync_scheduler.store import lingering
from sync_scheduler.store.claims import FACTS, Claim
from sync_scheduler.store.locking import DatabaseNow, database_now
from sync_scheduler.store.outcomes import Ending, Recorded, record

_BATCH = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    name: str
    host: str
    pid: int
    roles: str
    version: str
    tzdata: str
    queues: tuple[str, ...]
    jobs: tuple[str, ...]
    slots: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A node with handlers at work and how long it has not reported; infinite: it is gone."""

    node: str
    seconds: float


def enter(facts: NodeFacts) -> None:
    """The node's first report."""
    values = dataclasses.asdict(facts) | {"queues": list(facts.queues), "jobs": list(facts.jobs)}
    Node.objects.update_or_create(
        namespace=conf.get().NAMESPACE,
        name=facts.name,
        defaults=values | {"started_at": database_now(), "heartbeat_at": DatabaseNow()},
    )


def beat(name: str, *, running: int, clock_offset: float) -> bool:
    """The node lives. False: its row is gone, and it should enter again."""
    return bool(
        Node.objects.filter(name=name).update(
            heartbeat_at=DatabaseNow(), running=running, clock_offset=clock_offset, stopped_at=None
        )
    )


def leave(name: str) -> None:
    """The node stops of its own will."""
    Node.objects.filter(name=name).update(stopped_at=DatabaseNow(), running=0)


def holdings(name: str) -> dict[uuid.UUID, int]:
    """What the database thinks this node is running: Run id to token."""
    rows = Run.objects.filter(node=name, status=State.RUNNING).order_by()
    return dict(rows.values_list("id", "token"))


def silences() -> list[Silence]:
    """How long each node with handlers at work has been silent.

    A claim is a sign of life as good as a heartbeat: on a busy machine a node may claim and run
    while its pulse is late.
    """
    running = Run.objects.filter(status=State.RUNNING).order_by().values("node")
    holders: dict[str, dt.datetime | None] = dict(
        running.annotate(claimed_at=Max("started_at")).values_list("node", "claimed_at")
    )
    holders |= dict.fromkeys(lingering.nodes() - holders.keys())
    if not holders:
        return []
    now = database_now()
    beats: dict[str, dt.datetime | None] = {
        name: None if stopped else beat_at
        for name, beat_at, stopped in Node.objects.filter(name__in=holders).values_list(
            "name", "heartbeat_at", "stopped_at"
        )
    }
    found = []
    for name in sorted(holders):
        beat_at = beats.get(name)
        seconds = math.inf
        if beat_at is not None:
            seconds = (now - max(beat_at, holders[name] or beat_at)).total_seconds()
        found.append(Silence(node=name, seconds=seconds))
    return found


def take_back(silence: Silence) -> Recorded:
    """Make the lost node's Runs ready again, in small batches, as far as their lease is over.

    Those of them that were cancelled give up the places that their handlers kept.

    The first time a Run only becomes a suspect, which runs alone; a suspect whose node died is
    charged, and after too many of those it is dead.
    """
    settings = conf.get()
    over = Q()
    if math.isfinite(silence.seconds):
        over = Q(lease_seconds__lte=silence.seconds)
        if silence.seconds >= settings.NODE_LEASE:
            over |= Q(lease_seconds__isnull=True)
    lost = Run.objects.filter(over, node=silence.node, status=State.RUNNING)
    accepted: set[uuid.UUID] = set()
    endings: list[Ending] = []
    promoted: list[Any] = lingering.release(silence.node, over)
    last = None
    while True:
        page = lost if last is None else lost.filter(id__gt=last)
        claims = [Claim(*row) for row in page.order_by("id").values_list(*FACTS)[:_BATCH]]
        if not claims:
            return Recorded(accepted=frozenset(accepted), endings=endings, promoted=tuple(promoted))
        now = database_now()
        recorded = record([lost_ending(c, silence.node, now, settings.CRASH_LIMIT) for c in claims])
        accepted |= recorded.accepted
        endings += recorded.endings
        promoted += recorded.promoted
        last = claims[-1].id


def lost_ending(claim: Claim, node: str, now: dt.datetime, crash_limit: int) -> Ending:
    crash = claim.suspect
    dead = crash and claim.crashes + 1 >= crash_limit
    return Ending(
        claim=claim,
        node=node,
        status=State.FAILED if dead else State.SUBMITTED,
        outcome=Attempt.Outcome.LOST,
        started_at=claim.started_at,
        finished_at=now,
        error="The node stopped reporting while this ran; it may have taken effect.",
        reason=Reason.CRASHED if dead else Reason.NODE_LOST,
        run_at=None if dead else now,
        refund=not crash,
        crash=crash,
        suspect=True,
    )
