"""The section Nodes: who dispatches, who works, who is silent, and which queues nobody serves."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.contrib import admin
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sync_scheduler import clock, conf
from sync_scheduler.admin import marks, moments, pulse
from sync_scheduler.admin.address import number
from sync_scheduler.admin.section import Section
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node, Queue, Run, Term
from sync_scheduler.store.locking import database_now

_GONE_SHOWN = dt.timedelta(hours=24)
_MOST_NODES = 200
_TERMS = 20
_CLOCK_LIMIT_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    node: Node
    mark: marks.Mark
    beat: str
    warnings: tuple[str, ...]
    is_leader: bool
    queues: str
    started: SafeString
    runs_query: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    name: str
    waiting: str
    oldest: SafeString
    is_served: bool
    paused: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TermRow:
    epoch: int
    holder: str
    start: SafeString
    end: SafeString
    lasted: str
    reason: str
    gap: str


ALIVE = marks.Mark(tone="ok", shape="tick", word=_("alive"))
SILENT = marks.Mark(tone="alarm", shape="alarm", word=_("silent"))
STOPPED = marks.Mark(tone="quiet", shape="dash", word=_("stopped"))


@admin.register(Node)
class NodeAdmin(Section):
    place = "nodes"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        now, beat = database_now(), pulse.feel()
        nodes = known(now)
        found = rows(nodes, now, beat)
        alive = [row for row in found if row.mark is ALIVE]
        context = {
            "rows": found,
            "alive": len(alive),
            "silent": sum(row.mark is SILENT for row in found),
            "leader_since": moments.element(beat.since, now=now) if beat.is_alive else "",
            "lease_ends": moments.element(beat.expires_at, now=now, seconds=True)
            if beat.is_alive
            else "",
            "silent_since": moments.element(beat.silent_since, now=now, otherwise=_("ever")),
            "heirs": [
                row.node.name for row in alive if "dispatch" in row.node.roles and not row.is_leader
            ],
            "queues": queues(nodes, now),
            "terms": terms(now),
            "runs_url": self.url("changelist", model="run"),
            "hides_banner": True,
        }
        return self.show(
            request, "admin/sync_scheduler/node/change_list.html", title=_("Nodes"), context=context
        )

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A node has no page of its own: its row says everything."""
        anchor = f"#node-{object_id}" if number(object_id) is not None else ""
        return HttpResponseRedirect(self.url("changelist") + anchor)


def known(now: dt.datetime) -> list[Node]:
    """Every node that has reported within a day."""
    recent = Node.objects.filter(heartbeat_at__gte=now - _GONE_SHOWN)
    return list(recent.order_by("-heartbeat_at")[:_MOST_NODES])


def is_alive(node: Node, now: dt.datetime) -> bool:
    return node.stopped_at is None and not is_silent(node, now)


def is_silent(node: Node, now: dt.datetime) -> bool:
    if node.stopped_at is not None:
        return False
    return (now - node.heartbeat_at).total_seconds() > conf.get().NODE_LEASE


def rows(nodes: list[Node], now: dt.datetime, beat: pulse.Pulse) -> list[NodeRow]:
    """Living nodes first, then the silent, then those that stopped."""
    versions = {node.version for node in nodes if is_alive(node, now)}
    found = [_row(node, now, beat, versions) for node in nodes]
    order = {id(ALIVE): 1, id(SILENT): 0, id(STOPPED): 2}
    return sorted(found, key=lambda row: (order[id(row.mark)], row.node.name))


def _row(node: Node, now: dt.datetime, beat: pulse.Pulse, versions: set[str]) -> NodeRow:
    silent, stopped = is_silent(node, now), node.stopped_at is not None
    age = moments.span(max((now - node.heartbeat_at).total_seconds(), 0))
    text = _("%(age)s ago") % {"age": age}
    if silent:
        text = _("silent %(age)s, limit %(limit)s") % {
            "age": age,
            "limit": moments.span(conf.get().NODE_LEASE),
        }
    warnings = []
    if abs(node.clock_offset) > _CLOCK_LIMIT_SECONDS and not stopped:
        warnings.append(
            _("its clock is %(off)s s off the database's") % {"off": f"{node.clock_offset:+.1f}"}
        )
    if len(versions) > 1 and not stopped:
        warnings.append(_("nodes run different versions"))
    return NodeRow(
        node=node,
        mark=STOPPED if stopped else SILENT if silent else ALIVE,
        beat=text,
        warnings=tuple(warnings),
        is_leader=beat.is_alive and node.name == beat.holder,
        queues=", ".join(map(str, node.queues)) or _("all"),
        started=moments.element(node.started_at, now=now),
        runs_query=node.name,
    )


def queues(nodes: list[Node], now: dt.datetime) -> list[QueueRow]:
    """Queues in which runs wait, and those that somebody paused."""
    alive = [node for node in nodes if is_alive(node, now) and "work" in node.roles]
    serves_all = any(not node.queues for node in alive)
    served = {str(queue) for node in alive for queue in node.queues}
    waiting = {
        queue: (number, oldest)
        for queue, number, oldest in Run.objects.filter(
            status=State.SUBMITTED, waiting_for__isnull=True
        )
        .order_by()
        .values("queue")
        .annotate(number=Count("id"), oldest=Min("run_at"))
        .values_list("queue", "number", "oldest")
    }
    paused = {
        queue.name: queue.note or _("paused")
        for queue in Queue.objects.filter(paused_at__isnull=False)
    }
    return [
        QueueRow(
            name=name,
            waiting=f"{waiting.get(name, (0, None))[0]:,}",
            oldest=moments.element(
                waiting.get(name, (0, None))[1], now=now, otherwise=_("nothing waits")
            ),
            is_served=serves_all or name in served,
            paused=paused.get(name, ""),
        )
        for name in sorted({*waiting, *paused, *served})
    ]


def terms(now: dt.datetime) -> list[TermRow]:
    """Who led, from when to when, and where nobody did."""
    found = list(Term.objects.order_by("-epoch")[:_TERMS])
    listed = []
    for i, term in enumerate(found):
        older = found[i + 1] if i + 1 < len(found) else None
        gap = 0.0
        if older is not None and older.ended_at is not None:
            gap = (term.started_at - older.ended_at).total_seconds()
        listed.append(
            TermRow(
                epoch=term.epoch,
                holder=term.holder,
                start=moments.exact(term.started_at, now=now, seconds=True),
                end=moments.element(None, now=now, otherwise=_("goes on"))
                if term.ended_at is None
                else moments.exact(term.ended_at, now=now, seconds=True),
                lasted=moments.span(
                    ((term.ended_at or clock.now()) - term.started_at).total_seconds()
                ),
                reason=term.reason,
                gap=moments.span(gap) if gap >= 1 else "",
            )
        )
    return listed
