"""Run filter: which Runs a list shows, read from the address and nothing else.

Every choice runs along an index: the primary key grows with time, so a range of time is a range of
ids, and pages go on from the last id instead of counting rows.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from sync_scheduler import lifecycle
from sync_scheduler.admin.address import identifier, number, query
from sync_scheduler.admin.run_rows import COLUMNS
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run
from sync_scheduler.models.run import HELD, READY

PAGE = 50
# How many rows are looked at when no index knows the answer; then the reader decides to go on.
SEARCHED = 10_000

# Ready, or waiting for another run: each of the two has an index over just these rows.
WAITING = (READY, HELD)
ACTIVE_PARTS = {"waiting": WAITING, "running": (Q(status=State.RUNNING),)}
MOST_ACTIVE = 2_000
TROUBLED_STATES = frozenset({"failed", "cancelled", "skipped"})

STATES: dict[str, tuple[str | Promise, tuple[str, ...]]] = {
    "failed": (_("failed"), tuple(lifecycle.FAILURES)),
    "running": (_("running"), (State.RUNNING,)),
    "waiting": (_("waiting"), (State.SUBMITTED,)),
    "completed": (_("completed"), (State.COMPLETED,)),
    "cancelled": (_("cancelled"), (State.CANCELLED,)),
    "skipped": (_("skipped"), (State.SKIPPED,)),
}
RANGES: dict[str, tuple[str | Promise, dt.timedelta]] = {
    "1h": (_("last hour"), dt.timedelta(hours=1)),
    "6h": (_("6 h"), dt.timedelta(hours=6)),
    "24h": (_("24 h"), dt.timedelta(hours=24)),
    "7d": (_("7 d"), dt.timedelta(days=7)),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`older` is where to go on; `stopped_early`: not because the page was full."""

    runs: list[Run]
    older: uuid.UUID | None = None
    stopped_early: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    state: str = ""
    within: str = ""
    schedule: int | None = None
    job: str = ""
    node: str = ""
    queue: str = ""
    trigger: str = ""
    cause: str = ""
    first: uuid.UUID | None = None
    last: uuid.UUID | None = None
    before: uuid.UUID | None = None
    text: str = ""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> RunFilter:
        """What the address says; what it says wrongly is left out."""
        return cls(
            state=given.get("state", "") if given.get("state") in STATES else "",
            within=given.get("within", "") if given.get("within") in RANGES else "",
            schedule=number(given.get("schedule", "")),
            job=given.get("job", "")[:200],
            node=given.get("node", "")[:200],
            queue=given.get("queue", "")[:100],
            trigger=given.get("trigger", "") if given.get("trigger") in _TRIGGERS else "",
            cause=given.get("cause", "").strip()[:200],
            first=identifier(given.get("first", "")),
            last=identifier(given.get("last", "")),
            before=identifier(given.get("before", "")),
            text=given.get("q", "").strip()[:200],
        )

    def address(self, **changes: Any) -> str:
        """The query of the same list with something changed."""
        wanted = dataclasses.replace(self, **{"before": None, **changes}) if changes else self
        names = {"text": "q"}
        return query(
            {
                names.get(field.name, field.name): getattr(wanted, field.name)
                for field in dataclasses.fields(wanted)
            }
        )

    @property
    def is_open(self) -> bool:
        """Whether nothing is filtered out."""
        return dataclasses.replace(self, before=None) == RunFilter()

    def query(self, now: dt.datetime) -> QuerySet[Run]:
        """The Runs that match, newest first."""
        query = Run.objects.filter(self._where(now))
        if self.text:
            query = query.filter(_search(self.text))
        return query.order_by("-id")

    def _where(self, now: dt.datetime) -> Q:
        where = Q()
        if self.state:
            statuses = STATES[self.state][1]
            # By equality where it can be: that is what the partial indexes are made of.
            where &= Q(status__in=statuses) if len(statuses) > 1 else Q(status=statuses[0])
        if self.within:
            where &= Q(id__gte=first_id_at(now - RANGES[self.within][1]))
        for name in ("job", "node", "queue", "trigger"):
            if value := getattr(self, name):
                where &= Q(**{name: value})
        if self.cause:
            where &= Q(error__contains=self.cause)
        if self.schedule is not None:
            where &= Q(schedule_id=self.schedule)
        if self.first is not None:
            where &= Q(id__gte=self.first)
        if self.last is not None:
            where &= Q(id__lte=self.last)
        return where

    def page(self, now: dt.datetime, size: int = PAGE) -> Page:
        """One page; the work is bounded however many Runs there are."""
        query, floor = self.query(now).only(*COLUMNS), None
        if self.before is not None:
            query = query.filter(id__lt=self.before)
        if not self._is_indexed:
            floor = self._floor()
            if floor is not None:
                query = query.filter(id__gte=floor)
        if self.state in ACTIVE_PARTS:
            query = Run.objects.filter(id__in=self._active_ids(query, size)).only(*COLUMNS)
        elif self._is_troubled:
            query = Run.objects.filter(id__in=self._troubled_ids(query, size)).only(*COLUMNS)
        found = list(query.order_by("-id")[: size + 1])
        if len(found) > size:
            return Page(runs=found[:size], older=found[size - 1].id)
        return Page(runs=found, older=floor, stopped_early=floor is not None)

    def _active_ids(self, query: QuerySet[Run], size: int) -> list[uuid.UUID]:
        """The newest ids of what has not ended.

        Unordered, so that the small index over active rows is read: asked for an order, a
        database may prefer to walk through all rows by their id.
        """
        parts = ACTIVE_PARTS[self.state]
        unordered = query.order_by().values_list("id", flat=True)
        ids = [row for part in parts for row in unordered.filter(part)[:MOST_ACTIVE]]
        return sorted(ids, reverse=True)[: size + 1]

    def _troubled_ids(self, query: QuerySet[Run], size: int) -> list[uuid.UUID]:
        """The newest ids of what did not end well: an index keeps each kind of them in order."""
        newest = query.order_by("-id").values_list("id", flat=True)
        statuses = STATES[self.state][1]
        ids = [row for status in statuses for row in newest.filter(status=status)[: size + 1]]
        return sorted(ids, reverse=True)[: size + 1]

    @property
    def _is_troubled(self) -> bool:
        narrowed = (self.job, self.node, self.queue, self.trigger, self.text, self.cause)
        return self.state in TROUBLED_STATES and not any(narrowed)

    @property
    def _is_indexed(self) -> bool:
        return (
            self.is_open
            or self.schedule is not None
            or self.state in {"running", "waiting"}
            or self._is_troubled
            or (self.first is not None and self.last is not None)
            or (identifier(self.text) is not None)
        )

    def _floor(self) -> uuid.UUID | None:
        """The oldest id that is looked at; None: all are."""
        query = Run.objects.order_by("-id")
        if self.before is not None:
            query = query.filter(id__lt=self.before)
        found = list(query.values_list("id", flat=True)[SEARCHED : SEARCHED + 1])
        return found[0] if found else None


def first_id_at(instant: dt.datetime) -> uuid.UUID:
    """The smallest id that a Run made at this instant can have."""
    milliseconds = max(int(instant.timestamp() * 1000), 0)
    return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (0b10 << 62))


def _search(text: str) -> Q:
    """By id if it is one, otherwise by the exact name of a schedule or job, or a key."""
    found = identifier(text)
    if found is not None:
        return Q(id=found)
    return Q(schedule_name=text) | Q(job=text) | Q(key=text)


_TRIGGERS = frozenset(lifecycle.Trigger)
