"""Rules: what workers do, living ones and those that were given up."""

from __future__ import annotations

import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from sync_scheduler.errors import KeyConflict, LeaseLost
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import claims as claiming
from sync_scheduler.store import lingering, nodes, steps
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.outcomes import Ending
from sync_scheduler.work import claim, complete
from sync_scheduler.work.wire import Report
from tests.model.leading import Leading
from tests.model.world import WORKERS, act, seen
from tests.testapp import jobs

workers = st.sampled_from(WORKERS)
_ENDS = st.sampled_from(
    ["done", "done", "error", "retry", "cancel", "timeout", "guilty", "innocent", "given_back"]
)
_COUNTS = st.integers(1, 4)
_DELAYS = st.sampled_from([0.0, 15.0])
_KEYS = st.sampled_from([None, None, "one", "two"])


class Working(Leading):
    @rule(data=st.data())
    def a_worker_acts(self, data: st.DataObject) -> None:
        self.act(data, Working)

    @rule(data=st.data())
    def a_worker_acts_again(self, data: st.DataObject) -> None:
        self.act(data, Working)

    @act(key=_KEYS, text=st.sampled_from(["a", "b"]), attempts=st.integers(1, 3))
    def submit(self, key: str | None, text: str, attempts: int) -> None:
        before = set(self.ledger.rows)
        holder = Run.objects.filter(key=key).first() if key is not None else None
        prepared = jobs.fail.using(key=key, max_attempts=attempts, timeout=30)
        if holder is not None and holder.input != {"text": text}:
            with pytest.raises(KeyConflict):
                prepared.submit(text=text)
            seen["keys refused"] += 1
        else:
            run = prepared.submit(text=text)
            assert holder is None or run.pk == holder.pk
        self.finish_rule()
        assert len(self.ledger.rows.keys() - before) == (holder is None)

    @act()
    def submit_something_limited(self) -> None:
        jobs.limited.using(max_attempts=2).submit(path="x")
        self.finish_rule()

    @act(key=_KEYS, when=lambda self: self.schedules)
    def trigger(self, data: st.DataObject, key: str | None) -> None:
        schedule = Schedule.objects.get(name=self.some_schedule(data).name)
        first, again = schedule.trigger_now(key=key), schedule.trigger_now(key=key)
        assert (first.pk == again.pk) == (key is not None)
        self.finish_rule()

    @act(when=lambda self: self.ledger.rows)
    def cancel(self, data: st.DataObject) -> None:
        newest = list(self.ledger.rows.values())[-8:]
        row = data.draw(st.sampled_from(newest), label="run")
        cancelled = Run.objects.get(id=row.id).cancel(reason="a rule said so")
        assert cancelled == row.is_active
        self.finish_rule()

    @act(count=_COUNTS, when=lambda self: self.has_ready())
    def pick(self, count: int) -> None:
        """Ids that somebody was told of; whether they are still to be had shows later."""
        found = claiming.pick([], self.what.jobs, count)
        if found:
            self.remember(self.picked, found)

    @act(worker=workers, when=lambda self: self.picked)
    def claim_what_was_picked(self, worker: str, data: st.DataObject) -> None:
        ids = data.draw(st.sampled_from(self.picked), label="ids")
        self._took(worker, claim.claim_ids(ids, worker, self.what))

    def has_ready(self) -> bool:
        return any(
            row.status == "submitted" and row.waiting_for is None and row.run_at <= self.now
            for row in self.ledger.rows.values()
        )

    @act(worker=workers, count=_COUNTS, when=lambda self: self.has_ready(), weight=3)
    def poll(self, worker: str, count: int) -> None:
        self._took(worker, claim.poll([], count, worker, self.what))

    def _took(self, worker: str, taken: list[Claim]) -> None:
        before = dict(self.ledger.rows)
        self.finish_rule()
        changed = {i for i, row in self.ledger.rows.items() if row.token != before[i].token}
        assert {one.id for one in taken} == changed
        seen["claims"] += len(taken)
        for one in taken:
            row = before[one.id]
            assert (row.status, row.waiting_for) == ("submitted", None) and row.run_at <= self.now
            assert (one.token, one.attempt) == (row.token + 1, row.attempt + 1)
            self.holders[id(one)] = worker
            self.remember(self.claims, one)

    @act(how=_ENDS, delay=_DELAYS, when=lambda self: self.held(), weight=4)
    def end(self, data: st.DataObject, how: str, delay: float) -> None:
        self.end_one(data.draw(st.sampled_from(self.held()), label="claim"), how, delay)

    @act(how=_ENDS, delay=_DELAYS, when=lambda self: len(self.claims) > len(self.held()))
    def end_too_late(self, data: st.DataObject, how: str, delay: float) -> None:
        over = [one for one in self.claims if not self.is_valid(one)]
        self.end_one(data.draw(st.sampled_from(over), label="claim"), how, delay)

    def held(self) -> list[Claim]:
        return [one for one in self.claims if self.is_valid(one)]

    def end_one(self, one: Claim, how: str, delay: float) -> None:
        """Whoever was given a claim ends it, whether it still has it or not."""
        before, was_valid = self.ledger.rows.get(one.id), self.is_valid(one)
        ending = self._ending(one, how, delay)
        recorded = complete.settle([ending])
        assert (one.id in recorded.accepted) == was_valid
        self.finish_rule()
        after = self.ledger.rows.get(one.id)
        seen["endings" if was_valid else "endings of attempts that were over"] += 1
        if was_valid:
            assert after is not None and after.status == ending.status
            assert before is not None and after.attempt == before.attempt - int(ending.refund)
        else:
            if before is not None and (before.token, before.waiting_for) == (one.token, "handler"):
                before = before._replace(waiting_for=None)
                seen["handlers ended after a cancel"] += 1
            assert after == before, "an attempt that was over wrote something"

    def _ending(self, one: Claim, how: str, delay: float) -> Ending:
        node = self.holder_of(one)
        if how in {"guilty", "innocent"}:
            return complete.crashed(one, node, "it died", guilty=how == "guilty", limit=3)
        if how == "given_back":
            return complete.given_back(one, node)
        at = self.now.timestamp()
        report = Report(one.id.hex, one.token, how, at, at, None, f"{how}!", "", delay)
        return complete.ending_of(one, report, node)

    @act(name=st.sampled_from(["x", "y"]), when=lambda self: self.claims)
    def keep_a_step(self, data: st.DataObject, name: str) -> None:
        one = data.draw(st.sampled_from(self.claims), label="claim")
        known = steps.recall(one.id, name)
        if self.is_valid(one):
            steps.remember(one.id, name, one.token, attempt=one.attempt, token=one.token)
            assert steps.recall(one.id, name) == (known if known[0] else (True, one.token))
        else:
            with pytest.raises(LeaseLost):
                steps.remember(one.id, name, one.token, attempt=one.attempt, token=one.token)
            assert steps.recall(one.id, name) == known

    @act(worker=workers, how=st.sampled_from(["freeze", "thaw", "leave"]))
    def change_a_worker(self, worker: str, how: str) -> None:
        self.frozen.discard(worker)
        if how == "thaw":
            self.beat(worker)
            return
        self.frozen.add(worker)
        if how == "leave":
            nodes.leave(worker)

    def teardown(self) -> None:
        try:
            # After a failure it would say nothing, and it takes as long as everything before it.
            if sys.exc_info()[0] is None and len(self.ledger.rows) % 3 == 0:
                self._come_to_rest()
        finally:
            super().teardown()

    def _come_to_rest(self) -> None:
        """With one living worker, and a leader that looks after things, every Run ends."""
        for name in list(self.schedules):
            self.remove(name)
        self.change_a_worker("work-0", "freeze")
        self.change_a_worker("work-1", "thaw")
        rounds = 0
        while any(row.is_active for row in self.ledger.rows.values()):
            rounds += 1
            assert rounds < 60, [row for row in self.ledger.rows.values() if row.is_active]
            self.wait(45)
            self.sweep()
            self.reconcile()
            self._took("work-1", claim.poll([], 20, "work-1", self.what))
            mine = [row for row in self.ledger.rows.values() if row.status == "running"]
            for row in mine:
                one = claiming.current(row.id, row.token)
                assert one is not None
                if row.node == "work-1":
                    complete.settle([self._ending(one, "done", 0.0)])
            for one in lingering.of_node("work-1"):
                complete.settle([self._ending(one, "cancel", 0.0)])
            self.finish_rule()
        self.look(is_full=True)
        seen["came to rest"] += 1
