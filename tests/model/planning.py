"""Rules: what people do to schedules, and what time does."""

from __future__ import annotations

import datetime as dt

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from sync_scheduler.models import Schedule
from sync_scheduler.timing import policies
from tests.model.expected import Expected, Slots
from tests.model.world import NAMES, WORKERS, World, act, rule_of
from tests.testapp import jobs

names = st.sampled_from(NAMES)
# Shorter than a lease, longer than a lease, longer than a grace; outages are rarer.
seconds = st.sampled_from([1, 3, 7, 20, 20, 45, 61, 130, 400])
_OVERLAPS = st.sampled_from([one.value for one in policies.Overlap])
_MISFIRES = st.sampled_from([one.value for one in policies.Misfire])
_KINDS = st.sampled_from(["cron", "cron", "seconds", "every", "every", "once"])


class Planning(World):
    @rule(data=st.data())
    def somebody_plans(self, data: st.DataObject) -> None:
        self.act(data, Planning)

    @act(name=names, kind=_KINDS, overlap=_OVERLAPS, misfire=_MISFIRES)
    def register(self, name: str, kind: str, overlap: str, misfire: str) -> None:
        when, beat = rule_of(kind, self.now)
        options = {"overlap": overlap, "misfire": misfire, "max_catch_up": 3}
        done = Schedule.objects.register(name, job=jobs.fail, rule=when, **options)
        known, passed = self.schedules.get(name), Slots()
        assert done.created == (known is None)
        if known is None:
            known = self.schedules[name] = Expected(
                pk=done.schedule.pk, name=name, beat=beat, overlap=overlap, misfire=misfire,
                max_catch_up=3, grace=60,
            )  # fmt: skip
            known.begin(self.now)
        else:
            known.overlap, known.misfire = overlap, misfire
            if known.beat != beat:
                passed = known.leave(self.now)
                known.beat = beat
                known.begin(self.now)
        self.finish_rule({known.pk: passed})

    @initialize(kinds=st.tuples(_KINDS, _KINDS), overlaps=st.tuples(_OVERLAPS, _OVERLAPS))
    def begin_with_schedules(self, kinds: tuple[str, str], overlaps: tuple[str, str]) -> None:
        for name, kind, overlap in zip(NAMES, kinds, overlaps, strict=False):
            self.register(name, kind, overlap, "catch_up_all")

    @act(name=names, when=lambda self: len(self.schedules) > 1)
    def unregister(self, name: str) -> None:
        self.remove(name)

    def remove(self, name: str) -> None:
        removed = Schedule.objects.unregister(name)
        assert removed == (self.schedules.pop(name, None) is not None)
        self.finish_rule()

    @act(when=lambda self: self.schedules)
    def switch(self, data: st.DataObject) -> None:
        known = self.some_schedule(data)
        row = Schedule.objects.get(name=known.name)
        row.enabled = not known.enabled
        row.save()
        passed = known.leave(self.now)
        known.enabled = row.enabled
        known.begin(self.now)
        self.finish_rule({known.pk: passed})

    @act(for_seconds=st.none() | seconds, when=lambda self: self.schedules)
    def pause(self, data: st.DataObject, for_seconds: float | None) -> None:
        known = self.some_schedule(data)
        until = None if for_seconds is None else self.now + dt.timedelta(seconds=for_seconds)
        Schedule.objects.get(name=known.name).pause(until=until)
        known.is_paused, known.paused_until = True, until
        self.finish_rule()

    @act(when=lambda self: any(s.is_paused for s in self.schedules.values()))
    def resume(self, data: st.DataObject) -> None:
        known = self.some_schedule(data, lambda one: one.is_paused)
        Schedule.objects.get(name=known.name).resume()
        self.finish_rule({known.pk: known.resume(self.now)})

    @act(when=lambda self: self.schedules)
    def open_a_form(self, data: st.DataObject) -> None:
        row = Schedule.objects.get(name=self.some_schedule(data).name)
        self.remember(self.forms, row)

    @act(when=lambda self: self.forms)
    def save_a_form_that_was_opened_long_ago(self, data: st.DataObject) -> None:
        form = data.draw(st.sampled_from(self.forms), label="form")
        known = self.schedules.get(form.name)
        if known is None or known.pk != form.pk:
            return
        before = Schedule.objects.get(pk=form.pk)
        form.save()
        known.overlap, known.misfire = form.overlap, form.misfire
        passed = Slots()
        rules = [(row.kind, row.expression, row.enabled) for row in (before, form)]
        if rules[0] != rules[1]:
            passed = known.leave(self.now)
            known.enabled = form.enabled
            kinds = {"* * * * *": "cron", "* * * * * */20": "seconds"}
            kind = kinds.get(form.expression, "every" if form.kind == "interval" else "once")
            known.beat = rule_of(kind, self.now)[1]
            if kind == "once":
                known.beat = type(known.beat)(anchor=form.recurrence.instant, step=None)
            known.begin(self.now)
        self.finish_rule({known.pk: passed})

    @act(passed=seconds)
    def time_passes(self, passed: float) -> None:
        self.wait(passed)

    def wait(self, passed: float) -> None:
        """Whoever is not frozen reports meanwhile."""
        left = passed
        while left > 0:
            self.time.pass_by(min(left, 10.0))
            left -= 10.0
            self.contact.touch()
        for name in WORKERS:
            if name not in self.frozen:
                self.beat(name)
        self.finish_rule()

    @act(jumped=st.sampled_from([-600, -65, -7, -7, 7, 7, 65, 65, 600, 2600]))
    def somebody_sets_the_clock(self, jumped: float) -> None:
        self.time.jump(jumped)
        for name in WORKERS:
            if name not in self.frozen:
                self.beat(name)
        self.finish_rule()

    def finish_rule(self, slots: dict[int, Slots] | None = None) -> None:
        """No Run was born for a slot except as expected, and all else is as it should be."""
        self.check_slots([r for r in self.look() if r.trigger == "slot"], slots or {})
        self.check_schedules()
