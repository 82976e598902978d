"""The state of a model run: real rows in a transaction, and beside them what is expected."""

from __future__ import annotations

import datetime as dt
import inspect
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from sync_scheduler import conf, cron, every, once
from sync_scheduler.dispatch.leadership import Leadership
from sync_scheduler.dispatch.sweep import Contact
from sync_scheduler.lifecycle import Reason
from sync_scheduler.models import Schedule
from sync_scheduler.store import leader, nodes
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.moves import Move
from sync_scheduler.timing.rules import Rule
from sync_scheduler.work import claim
from tests.model.expected import Beat, Expected, Slots
from tests.model.ledger import Ledger, Row
from tests.model.timeline import BEGIN, Timeline

NAMES = ("bills", "mails", "stats")
LEADERS = ("lead-0", "lead-1", "lead-2")
WORKERS = ("work-0", "work-1")
# Long before anything happens, so that no clock is ever set back behind it.
ANCHOR = BEGIN - dt.timedelta(days=30)
_REMEMBERED = 12
# What happened how often, over all examples: a rule that never meets its case proves nothing.
seen: Counter[str] = Counter()


def rule_of(kind: str, now: dt.datetime) -> tuple[Rule, Beat]:
    if kind == "cron":
        return cron("* * * * *", tz="UTC"), _beat(60)
    if kind == "seconds":
        return cron("* * * * * */20", tz="UTC"), _beat(20)
    if kind == "every":
        return every(seconds=45, start=ANCHOR), _beat(45)
    at = now + dt.timedelta(seconds=30)
    return once(at), Beat(anchor=at, step=None)


def _beat(seconds: int) -> Beat:
    return Beat(anchor=ANCHOR, step=dt.timedelta(seconds=seconds))


F = TypeVar("F", bound=Callable[..., None])


def act(
    *, when: Callable[[Any], object] = lambda self: True, weight: int = 1, **drawn: Any
) -> Callable[[F], F]:
    """Something that may be done: when, how often beside others, and with what arguments."""

    def mark(function: F) -> F:
        function.__dict__["act"] = (when, weight, drawn)
        return function

    return mark


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._transaction = transaction.atomic()
        self._transaction.__enter__()
        self.time = Timeline()
        self.time.install(self._patch)
        self.ledger = Ledger()
        self.schedules: dict[str, Expected] = {}
        self.leaders = {name: Leadership(name) for name in LEADERS}
        self.contact = Contact()
        self.epoch = 0
        self.frozen: set[str] = set()
        self.what = claim.known()
        # What somebody looked at or was given a while ago, and may act on only now.
        self.plans: list[tuple[list[Move], int, dict[int, tuple[Any, ...]]]] = []
        self.picked: list[list[uuid.UUID]] = []
        self.claims: list[Claim] = []
        self.forms: list[Schedule] = []
        self.holders: dict[int, str] = {}
        for name in WORKERS:
            self.enter(name)

    def act(self, data: st.DataObject, room: type) -> None:
        """Do one of the things that can be done now. Fewer rules keep histories varied."""
        acts = {name: f.act for name, f in vars(room).items() if hasattr(f, "act")}
        able = [
            name
            for name, (when, weight, _) in acts.items()
            for _ in range(weight if when(self) else 0)
        ]
        name = data.draw(st.sampled_from(able), label="act")
        drawn = {n: data.draw(strategy, label=n) for n, strategy in acts[name][2].items()}
        action = getattr(self, name)
        if "data" in inspect.signature(action).parameters:
            drawn["data"] = data
        action(**drawn)

    @property
    def now(self) -> dt.datetime:
        return self.time.now

    def enter(self, name: str) -> None:
        nodes.enter(
            nodes.NodeFacts(
                name=name, host="host", pid=1, roles="work", version="0", tzdata="",
                queues=(), jobs=tuple(sorted(self.what.jobs)), slots=4,
            )
        )  # fmt: skip

    def beat(self, name: str) -> None:
        if not nodes.beat(name, running=0, clock_offset=0.0):
            self.enter(name)  # it was silent for so long that its row has gone

    def some_schedule(
        self, data: st.DataObject, fits: Callable[[Expected], bool] = lambda one: True
    ) -> Expected:
        fitting = sorted(name for name, one in self.schedules.items() if fits(one))
        return self.schedules[data.draw(st.sampled_from(fitting), label="schedule")]

    def remember(self, where: list[Any], thing: Any) -> None:
        where.append(thing)
        del where[:-_REMEMBERED]

    # ------------------------------------------------------------------ looking

    def look(self, **options: Any) -> list[Row]:
        """After every rule: nothing may have happened to the Runs that is not allowed."""
        return self.ledger.look(**options)

    def states(self) -> dict[int, tuple[Any, ...]]:
        """What the dispatcher's writes are conditional on, by schedule."""
        rows = Schedule.objects.values_list("id", "version", "next_run_at", "last_slot", "enabled")
        return {row[0]: row[1:] for row in rows}

    def check_schedules(self) -> None:
        rows = Schedule.objects.values_list("name", "next_run_at", "last_slot", "paused_at")
        found = {name: (at, last, paused is not None) for name, at, last, paused in rows}
        wanted = {
            name: (s.next_slot, s.watermark, s.is_paused) for name, s in self.schedules.items()
        }
        assert found == wanted

    def check_standing(self) -> None:
        """Epochs only grow, and of those who think that they lead one at most is right."""
        seen = leader.look()
        assert seen.epoch >= self.epoch
        self.epoch = seen.epoch
        terms = [one.term for one in self.leaders.values()]
        current = [t for t in terms if t is not None and t.epoch == self.epoch]
        assert len(current) <= 1
        assert all(t.epoch <= self.epoch for t in terms if t is not None)

    def check_slots(self, born: list[Row], expected: dict[int, Slots]) -> None:
        """The Runs that were born are the ones that the policies ask for, and each says why."""
        overflow = {"skip": Reason.OVERLAP, "queue": Reason.QUEUE_FULL}
        late = {"catch_up_all": Reason.CATCH_UP_LIMIT}
        for schedule in self.schedules.values():
            rows = [row for row in born if row.schedule_id == schedule.pk]
            slots = expected.get(schedule.pk, Slots())
            assert [r.slot for r in rows if r.status == "submitted"] == list(slots.run)
            seen["dispatched"] += len(slots.run)
            skipped = [row for row in rows if row.status != "submitted"]
            assert all(row.status == "skipped" for row in skipped)
            reasons = {
                overflow.get(schedule.overlap, Reason.OVERLAP): slots.overflow,
                late.get(schedule.misfire, Reason.MISFIRE): slots.missed,
                Reason.PAUSED: slots.paused,
                Reason.CHANGED: slots.changed,
            }
            for reason, wanted in reasons.items():
                own = [row for row in skipped if row.reason == reason]
                seen[f"skipped: {reason}"] += len(own)
                self._check_recorded(own, wanted)
            assert {row.reason for row in skipped} <= set(reasons)

    def _check_recorded(self, rows: list[Row], wanted: tuple[dt.datetime, ...]) -> None:
        """Each slot has its row, or the oldest of them share one that says how many."""
        slots = [row.slot for row in rows]
        if slots == list(wanted):
            return
        assert slots, f"nothing says what became of {wanted[0]}"
        folded = len(wanted) - len(slots) + 1
        assert slots == list(wanted[folded - 1 :])
        meta = Schedule.objects.get(name=rows[0].schedule_name).runs.get(id=rows[0].id).meta
        seen["many slots in one record"] += 1
        assert meta["count"] == folded
        assert meta["from"] == wanted[0].isoformat()
        assert meta["to"] == wanted[folded - 1].isoformat()

    def retention(self) -> dt.timedelta:
        return dt.timedelta(days=conf.get().RETENTION_DAYS)

    def is_valid(self, one: Claim) -> bool:
        row = self.ledger.rows.get(one.id)
        return row is not None and row.status == "running" and row.token == one.token

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._transaction.__exit__(None, None, None)
        self.time.release_database()
        self._patch.undo()
