"""Rules: what leaders do, the true one and those that only think so."""

from __future__ import annotations

import contextlib

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sync_scheduler import conf
from sync_scheduler.dispatch import reconcile, sweep
from sync_scheduler.dispatch.mend import Mender
from sync_scheduler.dispatch.plan import Circumstances, plan
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.store import schedules, slots, upkeep
from sync_scheduler.store.moves import Move
from tests.model.planning import Planning, seconds
from tests.model.world import LEADERS, act, seen

leaders = st.sampled_from(LEADERS)


class Leading(Planning):
    @rule(data=st.data())
    def a_leader_acts(self, data: st.DataObject) -> None:
        self.act(data, Leading)

    @rule(data=st.data())
    def a_leader_acts_again(self, data: st.DataObject) -> None:
        self.act(data, Leading)

    def terms(self) -> list[str]:
        """Who thinks that it leads."""
        return [name for name in LEADERS if self.leaders[name].term is not None]

    def some_leader(self, data: st.DataObject) -> str:
        name: str = data.draw(st.sampled_from(self.terms()), label="leader")
        return name

    @act(name=leaders)
    def campaign_or_renew(self, name: str) -> None:
        self.leaders[name].step()
        self.check_standing()

    @act(when=lambda self: self.terms())
    def resign(self, data: st.DataObject) -> None:
        name = self.some_leader(data)
        self.leaders[name].resign("a rule said so")
        assert self.leaders[name].term is None
        self.check_standing()

    @act(name=leaders)
    def lead_and_tick(self, name: str) -> None:
        self.leaders[name].step()
        self.check_standing()
        self.tick(name)

    @act(name=leaders, passed=seconds, weight=4)
    def lead_and_tick_after_a_while(self, name: str, passed: float) -> None:
        self.wait(passed)
        self.lead_and_tick(name)

    @act(name=leaders, weight=2)
    def take_over_and_tick(self, name: str) -> None:
        """Another one leads; those before it find out when they write."""
        self.time.jump(6)  # only the wall: they still trust their own clocks
        self.lead_and_tick(name)

    @act(when=lambda self: self.terms())
    def tick_again(self, data: st.DataObject) -> None:
        self.tick(self.some_leader(data))

    def tick(self, name: str) -> None:
        term = self.leaders[name].term
        if term is None:
            return
        if term.epoch != self.epoch:
            self._tick_in_vain(name)
            return
        active = {s.pk: self.ledger.active_of(s.pk) for s in self.schedules.values()}
        tick(term, self.now)
        expected = {s.pk: s.dispatch(self.now, active[s.pk]) for s in list(self.schedules.values())}
        self.finish_rule(expected)

    def _tick_in_vain(self, name: str) -> None:
        term, before = self.leaders[name].term, (self.states(), self.ledger.rows)
        assert term is not None
        with contextlib.suppress(LeadershipLost):
            tick(term, self.now)
        seen["ticks under an old epoch"] += 1
        self.look()
        assert (self.states(), self.ledger.rows) == before, "an old epoch wrote something"

    @act(when=lambda self: self.terms())
    def decide_and_freeze(self, data: st.DataObject) -> None:
        """What a leader that is stopped between its decision and its write knows."""
        term = self.leaders[self.some_leader(data)].term
        assert term is not None
        given = Circumstances(now=self.now, settings=conf.get())
        moves = [plan(due, given) for due in schedules.due(self.now, 100)]
        if moves:
            self.remember(self.plans, (moves, term.epoch, self.states()))

    @act(when=lambda self: self.plans, weight=2)
    def write_what_was_decided(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.plans) - 1), label="plan")
        moves, epoch, known = self.plans.pop(index)
        before = self.states()
        admitted = slots.admit(moves, epoch)
        wanted = {
            move.schedule_id
            for move in moves
            if epoch == self.epoch and before.get(move.schedule_id) == known[move.schedule_id]
        }
        assert admitted.moved == wanted
        seen["late writes that still held"] += len(wanted)
        seen["late writes under an old epoch"] += epoch != self.epoch
        if epoch == self.epoch:
            seen["late writes about a changed schedule"] += len(moves) - len(wanted)
        born = self.look()
        assert {row.schedule_id for row in born} <= wanted
        for schedule in self.schedules.values():
            # How many find room depends on now; which ones are due was decided then.
            if schedule.pk in wanted:
                self._follow(schedule.pk, moves)
        self.check_schedules()

    def _follow(self, pk: int, moves: list[Move]) -> None:
        (move,) = (move for move in moves if move.schedule_id == pk)
        (known,) = (s for s in self.schedules.values() if s.pk == pk)
        assert known.watermark is None or (move.last_slot and move.last_slot >= known.watermark)
        known.next_slot, known.watermark = move.next_run_at, move.last_slot

    @act(when=lambda self: self.terms())
    def mend(self, data: st.DataObject) -> None:
        term = self.leaders[self.some_leader(data)].term
        assert term is not None
        before = self.states()
        Mender().mend(self.now, term.epoch)
        if term.epoch == self.epoch:
            for schedule in self.schedules.values():
                schedule.mend(self.now)
        else:
            assert self.states() == before, "an old epoch mended something"
        self.finish_rule()

    @act(what=st.sampled_from(["reconcile", "sweep", "sweep", "prune"]))
    def keep_house(self, what: str) -> None:
        getattr(self, what)()

    def reconcile(self) -> None:
        done = reconcile.reconcile(self.now, upkeep.probe(self.now))
        seen["waiting runs released"] += done.released
        self.finish_rule()
        rows = self.ledger.rows.values()
        running = {r.guard for r in rows if r.status == "running" or r.waiting_for == "handler"}
        for guard in {row.guard for row in rows if row.waiting_for}:
            waiting = [r for r in self.ledger.rows.values() if r.guard == guard and r.is_active]
            if guard is not None and guard not in running:
                assert any(row.waiting_for is None for row in waiting), "waits for nobody"

    def sweep(self) -> None:
        held = {one.id for one in self.claims if self.is_valid(one)}
        alive = {
            one.id
            for one in self.claims
            if self.is_valid(one) and self.holder_of(one) not in self.frozen
        }
        swept = sweep.sweep(self.now, self.contact)
        seen["runs taken back"] += swept.taken_back
        seen["orphans ended"] += swept.orphans
        self.finish_rule()
        for run_id in held & alive:
            row = self.ledger.rows[run_id]
            assert row.status != "submitted", f"{row} was taken from a living node"

    def holder_of(self, one: object) -> str:
        return self.holders.get(id(one), "")

    def prune(self) -> None:
        seen["runs pruned"] += Pruner().prune(self.now)
        self.look(pruned_before=self.now - self.retention())
        self.check_schedules()
