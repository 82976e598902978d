"""Ticks: one row per slot of a schedule, whether it ran or not, each with the reason.

What the rule says should have happened is laid beside what the rows say did. A slot without a row
is explained by what is known: who led at that time, when the definition was changed, how long
history is kept.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from sync_scheduler import conf, lifecycle
from sync_scheduler.admin import causes, marks, moments, run_rows
from sync_scheduler.admin.payloads import hide_in_runs
from sync_scheduler.admin.pulse import Pulse
from sync_scheduler.admin.run_filter import first_id_at
from sync_scheduler.errors import InvalidRule
from sync_scheduler.lifecycle import Reason, State, Trigger
from sync_scheduler.models import Run, Schedule, Term
from sync_scheduler.timing import slots

SHOWN = 30
_READ = 200
_TERMS = 50
_MICROSECOND = dt.timedelta(microseconds=1)
_LATE = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    slot: dt.datetime
    mark: marks.Mark
    why: str = ""
    late: str = ""
    took: str = ""
    seconds: float | None = None
    run: Run | None = None
    filled_by: Run | None = None
    is_asked_for: bool = False


def read(
    schedule: Schedule, *, now: dt.datetime, pulse: Pulse, at: dt.datetime | None = None
) -> list[Tick]:
    """The newest slots up to now, or those around `at`; newest first."""
    until = now if at is None else min(at + _reach(schedule, at), now)
    due = _expected(schedule, until, now)
    runs = _runs(schedule, due[0] if at is not None and due else None)
    hide_in_runs(runs)
    own = {run.slot: run for run in runs if run.slot and run.trigger != Trigger.BACKFILL}
    fills = {run.slot: run for run in runs if run.slot and run.trigger == Trigger.BACKFILL}
    wanted = sorted({*due, *(slot for slot in own if slot <= until)}, reverse=True)[:SHOWN]
    context = _Context(schedule=schedule, runs=runs, now=now, pulse=pulse)
    found = []
    for slot in wanted:
        run = own.get(slot)
        tick = context.without_run(slot) if run is None else _with_run(run, slot, now)
        found.append(dataclasses.replace(tick, filled_by=fills.get(slot), is_asked_for=slot == at))
    return found


def _expected(schedule: Schedule, until: dt.datetime, now: dt.datetime) -> list[dt.datetime]:
    """The slots that the rule, as it is now, has until then; none from before it existed."""
    kept_since = now - dt.timedelta(days=conf.get().RETENTION_DAYS)
    after = max(schedule.created_at, kept_since) - _MICROSECOND
    try:
        return slots.latest(schedule.recurrence, after, until, SHOWN)
    except InvalidRule:
        return []


def _reach(schedule: Schedule, at: dt.datetime) -> dt.timedelta:
    """How far beyond the asked slot the table goes: a few slots."""
    try:
        following = slots.preview(schedule.recurrence, at, 5)
    except InvalidRule:
        following = []
    return following[-1] - at if following else dt.timedelta(days=1)


def _runs(schedule: Schedule, oldest: dt.datetime | None) -> list[Run]:
    query = Run.objects.filter(schedule_id=schedule.id).only(*run_rows.COLUMNS, "meta")
    if oldest is None:
        return list(query.order_by("-id")[:_READ])
    return list(query.filter(id__gte=first_id_at(oldest)).order_by("id")[:_READ])


def _with_run(run: Run, slot: dt.datetime, now: dt.datetime) -> Tick:
    end = run.finished_at or (now if run.status == State.RUNNING else None)
    seconds = None if run.status == State.SKIPPED else moments.between(run.started_at, end)
    late = None if run.status == State.SKIPPED else moments.between(slot, run.started_at)
    return Tick(
        slot=slot,
        mark=marks.of_run(run.status, attempt=run.attempt, reason=run.reason),
        why=_why(run, slot, now),
        late="" if late is None or late < _LATE else moments.span(late),
        took=moments.took(seconds),
        seconds=seconds,
        run=run,
    )


def _why(run: Run, slot: dt.datetime, now: dt.datetime) -> str:
    if run.status == State.SKIPPED:
        return f"{lifecycle.sentence(run.reason)} {_details(run.meta, now)}".strip()
    if run.status in lifecycle.FAILURES or run.status == State.CANCELLED:
        return causes.in_words(run.error, run.reason)
    if run.status == State.SUBMITTED:
        return run_rows.waits_for(run, now)
    late = (run.submitted_at - slot).total_seconds()
    if late > conf.get().MISFIRE_GRACE:
        return _("Caught up %(span)s late.") % {"span": moments.span(late)}
    return ""


def _details(meta: dict[str, Any], now: dt.datetime) -> str:
    """What the dispatcher noted beside the reason."""
    parts = []
    if meta.get("note") or meta.get("by"):
        by = _("by %(name)s") % {"name": meta["by"]} if meta.get("by") else ""
        note = f"“{meta['note']}”" if meta.get("note") else ""
        parts.append(f"{by} {note}".strip().capitalize())
    start, end = _instant(meta.get("no_leader_from")), _instant(meta.get("no_leader_to"))
    if start is not None:
        parts.append(nobody_led(start, end, now))
    elif meta.get("leader"):
        parts.append(_("%(node)s led at that time.") % {"node": meta["leader"]})
    if meta.get("count"):
        first, last = _instant(meta.get("from")), _instant(meta.get("to"))
        if first is not None and last is not None:
            parts.append(
                _("Stands for %(count)s slots from %(first)s to %(last)s.")
                % {
                    "count": f"{int(meta['count']):,}",
                    "first": moments.wall(first, now=now),
                    "last": moments.wall(last, now=now),
                }
            )
    return " ".join(parts)


def nobody_led(start: dt.datetime, end: dt.datetime | None, now: dt.datetime) -> str:
    if end is None:
        return _("No node has led since %(start)s.") % {
            "start": moments.wall(start, now=now, seconds=True)
        }
    return _("No node led from %(start)s to %(end)s.") % {
        "start": moments.wall(start, now=now, seconds=True),
        "end": moments.wall(end, now=now, seconds=True),
    }


@dataclasses.dataclass(slots=True, kw_only=True)
class _Context:
    """What explains a slot that has no row."""

    schedule: Schedule
    runs: Sequence[Run]
    now: dt.datetime
    pulse: Pulse
    terms: list[Term] | None = None

    def without_run(self, slot: dt.datetime) -> Tick:
        schedule = self.schedule
        if not schedule.enabled:
            return Tick(slot=slot, mark=marks.OFF, why=_("The schedule is switched off."))
        if schedule.next_run_at is not None and slot >= schedule.next_run_at:
            return self._not_dispatched(slot)
        together = self._recorded_together(slot)
        if together is not None:
            return dataclasses.replace(_with_run(together, slot, self.now), slot=slot)
        if slot < schedule.updated_at:
            why = _("No record of this slot. The definition was last changed at %(at)s.") % {
                "at": moments.wall(schedule.updated_at, schedule.timezone, now=self.now)
            }
            return Tick(slot=slot, mark=marks.SKIPPED, why=why)
        gap = self._gap(slot)
        if gap is not None:
            return Tick(slot=slot, mark=marks.MISSED, why=nobody_led(gap[0], gap[1], self.now))
        return Tick(slot=slot, mark=marks.MISSED, why=_("No record of this slot."))

    def _not_dispatched(self, slot: dt.datetime) -> Tick:
        if self.schedule.is_paused:
            why = lifecycle.sentence(Reason.PAUSED)
            if self.schedule.holds_slots_back:
                why = _("Held back by the pause; the newest one is run when it ends.")
            return Tick(slot=slot, mark=marks.PAUSED, why=why)
        if self.pulse.is_alive:
            return Tick(slot=slot, mark=marks.DUE, why=_("About to be dispatched."))
        since = self.pulse.silent_since
        why = _("No node has ever led.") if since is None else nobody_led(since, None, self.now)
        return Tick(slot=slot, mark=marks.MISSED, why=f"{_('Not dispatched so far.')} {why}")

    def _recorded_together(self, slot: dt.datetime) -> Run | None:
        for run in self.runs:
            first, last = _instant(run.meta.get("from")), _instant(run.meta.get("to"))
            if first is not None and last is not None and first <= slot <= last:
                return run
        return None

    def _gap(self, slot: dt.datetime) -> tuple[dt.datetime, dt.datetime | None] | None:
        """From when to when nobody led around the slot; None: somebody did."""
        if self.terms is None:
            self.terms = list(Term.objects.order_by("-epoch")[:_TERMS])
        led_again: dt.datetime | None = None
        for term in self.terms:
            if term.started_at <= slot:
                if term.ended_at is None or slot < term.ended_at:
                    return None
                return term.ended_at, led_again
            led_again = term.started_at
        return None


def _instant(text: object) -> dt.datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
