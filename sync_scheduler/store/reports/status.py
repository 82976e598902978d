"""The whole scheduler at a glance: who leads, who lives, what ended, runs, waits, comes next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TypedDict

from django.db.models import Count, F, Q

from sync_scheduler import clock, conf
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import FAILURES, State
from sync_scheduler.models import Leader, Node, Run, Schedule
from sync_scheduler.store.locking import alias, database_now

DAY = dt.timedelta(hours=24)
_NEXT = 10


class LeaderEntry(TypedDict):
    node: str
    epoch: int
    since: dt.datetime | None


class NodeEntry(TypedDict):
    name: str
    started_at: dt.datetime
    heartbeat_at: dt.datetime
    running: int
    queues: list[str]


class Ended(TypedDict):
    completed: int
    failed: int
    cancelled: int
    skipped: int


class NextEntry(TypedDict):
    schedule: str
    at: dt.datetime


class Status(TypedDict):
    leader: LeaderEntry | None
    nodes: list[NodeEntry]
    last_24h: Ended
    running: int
    waiting: dict[str, int]
    next: list[NextEntry]


def snapshot() -> Status:
    """Everything, in eight queries."""
    now = database_now()
    nodes = alive_nodes(now)
    return Status(
        leader=leader(now),
        nodes=[
            NodeEntry(
                name=node.name,
                started_at=node.started_at,
                heartbeat_at=node.heartbeat_at,
                running=node.running,
                queues=list(node.queues),
            )
            for node in nodes
        ],
        last_24h=ended_since(now - DAY),
        running=Run.objects.filter(status=State.RUNNING).count(),
        waiting=_waiting_everywhere(now, nodes),
        next=_next(),
    )


def leader(now: dt.datetime) -> LeaderEntry | None:
    """Who leads, by the database's clock; None while nobody's lease holds."""
    row = Leader.objects.using(alias()).filter(namespace=conf.get().NAMESPACE).first()
    if row is None or not row.holder or row.expires_at is None or row.expires_at <= now:
        return None
    return LeaderEntry(node=row.holder, epoch=row.epoch, since=row.since)


def alive_nodes(now: dt.datetime) -> list[Node]:
    """Nodes that have reported within their lease and have not signed off."""
    heard = now - dt.timedelta(seconds=conf.get().NODE_LEASE)
    return list(
        Node.objects.filter(heartbeat_at__gte=heard, stopped_at__isnull=True).order_by("name")
    )


def ended_since(start: dt.datetime) -> Ended:
    """How many Runs ended, and how. A Run that timed out has failed."""
    counts: dict[str, int] = dict(
        Run.objects.filter(finished_at__gte=start)
        .order_by()
        .values_list("status")
        .annotate(number=Count("*"))
    )
    return Ended(
        completed=counts.get(State.COMPLETED, 0),
        failed=sum(counts.get(state, 0) for state in FAILURES),
        cancelled=counts.get(State.CANCELLED, 0),
        skipped=counts.get(State.SKIPPED, 0),
    )


def waiting(now: dt.datetime) -> dict[str, int]:
    """How many Runs are due and have not started, by queue: ready ones and held-back ones.

    Two queries, because each of the two kinds has an index of its own.
    """
    # A Run's time is set by the clock of the process that submitted it.
    due = Run.objects.filter(status=State.SUBMITTED, run_at__lte=max(now, clock.now())).order_by()
    found: dict[str, int] = {}
    for kind in (Q(waiting_for__isnull=True), Q(waiting_for__isnull=False)):
        for queue, number in due.filter(kind).values_list("queue").annotate(number=Count("id")):
            found[queue] = found.get(queue, 0) + number
    return found


def _waiting_everywhere(now: dt.datetime, nodes: Sequence[Node]) -> dict[str, int]:
    """Queues that are known but empty stand there with 0."""
    known = {job.policy.queue for job in registry.all_jobs()}
    known.update(queue for node in nodes for queue in node.queues)
    found = dict.fromkeys(known, 0) | waiting(now)
    return dict(sorted(found.items()))


def _next() -> list[NextEntry]:
    """The schedules that come due next; one that is paused until after that is left out."""
    rows = Schedule.objects.filter(
        Q(paused_at__isnull=True) | Q(paused_until__lte=F("next_run_at")),
        enabled=True,
        next_run_at__isnull=False,
    ).order_by("next_run_at", "id")
    return [
        NextEntry(schedule=name, at=at)
        for name, at in rows.values_list("name", "next_run_at")[:_NEXT]
        if at is not None
    ]
