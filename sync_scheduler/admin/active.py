"""Active: what runs at the moment, and what of it is stuck.

Stuck is what takes far longer than usual, or whose node is silent; then it is said what will
happen, and when.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from sync_scheduler import conf
from sync_scheduler.admin import durations, marks, moments, nodes, run_rows
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node, Run

_MOST = 15
_TIMES = 3
_LEAST_SECONDS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRow:
    run: Run
    mark: marks.Mark
    name: str
    lasts: str
    note: str
    percent: int | None

    @property
    def is_stuck(self) -> bool:
        return self.mark is marks.STUCK


def read(known: Sequence[Node], *, now: dt.datetime, database: dt.datetime) -> list[ActiveRow]:
    """The runs that have been running longest, stuck ones first."""
    found = list(
        Run.objects.filter(status=State.RUNNING)
        .only(*run_rows.COLUMNS, "lease_seconds")
        .order_by("started_at")[:_MOST]
    )
    if not found:
        return []
    usual = durations.usual(durations.habits())
    by_name = {node.name: node for node in known}
    rows = [_row(run, by_name, usual.get(run.job), now, database) for run in found]
    return sorted(rows, key=lambda row: not row.is_stuck)


def _row(
    run: Run,
    by_name: Mapping[str, Node],
    usual: float | None,
    now: dt.datetime,
    database: dt.datetime,
) -> ActiveRow:
    seconds = moments.between(run.started_at, now) or 0
    note = lost_note(run, by_name.get(run.node), database)
    if not note and is_slow(seconds, usual):
        note = _("usually %(usual)s") % {"usual": moments.took(usual)}
    return ActiveRow(
        run=run,
        mark=marks.STUCK if note else marks.RUNNING,
        name=run.schedule_name or run.job,
        lasts=moments.span(seconds),
        note=note,
        percent=None if run.progress is None else round(run.progress * 100),
    )


def is_slow(seconds: float, usual: float | None) -> bool:
    return bool(usual) and seconds > _TIMES * (usual or 0) and seconds > _LEAST_SECONDS


def lost_note(run: Run, node: Node | None, now: dt.datetime) -> str:
    """For a run whose node is silent or gone; `now` on the database's clock, as the beats are."""
    if node is None or node.stopped_at is not None:
        return _("Its node %(node)s is gone; the run is taken up again by another one.") % {
            "node": run.node
        }
    if not nodes.is_silent(node, now):
        return ""
    ends = node.heartbeat_at + dt.timedelta(seconds=run.lease_seconds or conf.get().NODE_LEASE)
    words = {
        "node": run.node,
        "span": moments.span((now - node.heartbeat_at).total_seconds()),
        "at": moments.wall(ends, now=now, seconds=True),
    }
    if ends > now:
        text = _("Its node %(node)s is silent for %(span)s; its lease ends %(at)s, then the run")
    else:
        text = _("Its node %(node)s is silent for %(span)s; its lease ended %(at)s, and the run")
    return f"{text % words} {_('is taken up again by the next sweep of the leader.')}"
