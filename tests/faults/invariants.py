"""What no fault may break, asked of the rows and of the ledger; each answers with sentences.

I1  no slot lost: between a schedule's first slot and its watermark each has a Run or a record
I2  no slot twice: neither among the rows, nor in the ledger, which remembers what was pruned
I4  one effect per completed Run of an atomic job, none otherwise (each such test job writes one)
I5  a handler was entered at most once per recorded attempt
I6  Runs of a schedule that must not overlap did not, as far as they were not taken away
I7  epochs only grow, and no Run was stored under an epoch that was over

I3 (everything ends) and I8 (nothing leaks) take time; they are in `auditor` and `resources`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from sync_scheduler import lifecycle
from sync_scheduler.jobs import registry
from sync_scheduler.models import Attempt, Leader, Run, Schedule, Term
from sync_scheduler.timing import slots
from tests.faults import ledger
from tests.testapp.models import Effect

# A statement that has begun under an epoch may end a moment after the next one began: it is not
# locked out, so that a stopped leader cannot lock its successor out. A stale leader is later.
STATEMENT_SECONDS = 1.0
_MOST_NAMED = 5
_MICROSECOND = dt.timedelta(microseconds=1)


def no_slot_lost(path: Path) -> list[str]:
    # Before the Runs: what is dispatched while we look must not seem lost. What was edited has
    # slots of more than one rule.
    schedules = list(Schedule.objects.filter(version=1, last_slot__isnull=False))
    found: defaultdict[int, set[dt.datetime]] = defaultdict(set)
    ranges: defaultdict[int, list[tuple[dt.datetime, dt.datetime]]] = defaultdict(list)
    rows = Run.objects.filter(trigger="slot").exclude(schedule=None).order_by()
    for schedule_id, slot, meta in rows.values_list("schedule_id", "slot", "meta"):
        if slot is not None:
            found[schedule_id].add(slot)
            if "from" in meta:
                ends = (dt.datetime.fromisoformat(meta[end]) for end in ("from", "to"))
                ranges[schedule_id].append((next(ends), next(ends)))
    wrong = []
    for schedule in schedules:
        have = found[schedule.pk]
        if schedule.last_slot is None:
            continue
        # Without a single Run, whatever the watermark has passed since it was made is lost.
        begins = [*have, *(start for start, _ in ranges[schedule.pk])]
        first = min(begins, default=schedule.created_at + _MICROSECOND)
        expected = slots.upcoming(
            schedule.recurrence, first - _MICROSECOND, schedule.last_slot, 1_000_000
        )
        lost = [
            slot
            for slot in expected
            if slot not in have and not any(a <= slot <= b for a, b in ranges[schedule.pk])
        ]
        if lost:
            wrong.append(f"{schedule.name} lost {len(lost)} slots: {_some(lost)}")
    return wrong


def no_slot_twice(path: Path) -> list[str]:
    rows = Run.objects.filter(trigger="slot").order_by().values_list("schedule_name", "slot", "id")
    wanted = Counter((name, slot) for name, slot, _ in rows)
    wrong = [f"{name} has {n} runs for {slot}" for (name, slot), n in wanted.items() if n > 1]
    by_slot: defaultdict[str, set[str]] = defaultdict(set)
    for entry in ledger.read(path):
        if entry.kind == "start" and "@" in entry.label:
            by_slot[entry.label].add(entry.run)
    wrong += [f"{label} was run by {ids}" for label, ids in by_slot.items() if len(ids) > 1]
    return wrong


def effects_exactly_once(path: Path) -> list[str]:
    atomic = [job.name for job in registry.all_jobs() if job.policy.atomic]
    ended = Run.objects.filter(job__in=atomic, finished_at__isnull=False).order_by()
    rows = list(ended.values_list("id", "status"))
    effects = Counter(Effect.objects.order_by().values_list("run", flat=True))
    return [
        f"run {run_id} is {status} and has {effects[str(run_id)]} effects"
        for run_id, status in rows
        if effects[str(run_id)] != (1 if status == lifecycle.State.COMPLETED else 0)
    ]


def every_start_has_its_attempt(path: Path) -> list[str]:
    entries: defaultdict[str, list[ledger.Entry]] = defaultdict(list)
    for entry in ledger.read(path):
        if entry.kind == "start":
            entries[entry.run].append(entry)
    # In this order: an attempt is recorded when its Run stops running.
    rows = {str(i): s for i, s in Run.objects.order_by().values_list("id", "status")}
    attempts = Counter(str(i) for i in Attempt.objects.order_by().values_list("run_id", flat=True))
    wrong = []
    for run, starts in entries.items():
        if run not in rows:
            continue  # pruned, with its attempts
        most = attempts[run] + (1 if rows[run] == lifecycle.State.RUNNING else 0)
        if len(starts) > most:
            wrong.append(f"run {run} was entered {len(starts)} times in {attempts[run]} attempts")
    return wrong


def guarded_runs_do_not_overlap(path: Path) -> list[str]:
    guards = dict(Run.objects.exclude(guard=None).order_by().values_list("id", "guard"))
    if not guards:
        return []
    by_guard: defaultdict[int, list[tuple[dt.datetime, dt.datetime, str]]] = defaultdict(list)
    # Who was given up for lost may have gone on for a while; its writes were refused.
    rows = Attempt.objects.exclude(outcome="lost").order_by()
    for run_id, began, ended in rows.values_list("run_id", "started_at", "finished_at"):
        guard = guards.get(run_id)
        if guard is not None:
            by_guard[guard].append((began, ended, str(run_id)))
    return [
        f"runs {one[2]} and {other[2]} of one schedule overlap by {one[1] - other[0]}"
        for spans in by_guard.values()
        for one, other in pairwise(sorted(spans))
        if other[0] < one[1]
    ]


def epochs_only_grow(path: Path) -> list[str]:
    terms = list(Term.objects.order_by("epoch").values_list("epoch", "started_at"))
    wrong = [
        f"term {later[0]} began before term {earlier[0]}"
        for earlier, later in pairwise(terms)
        if later[1] < earlier[1]
    ]
    newest = Leader.objects.values_list("epoch", flat=True).first()
    if terms and newest is not None and newest < terms[-1][0]:
        wrong.append(f"the leader's epoch is {newest}, though there is a term {terms[-1][0]}")
    over = {earlier[0]: later[1] for earlier, later in pairwise(terms)}
    grace = dt.timedelta(seconds=STATEMENT_SECONDS)
    rows = Run.objects.exclude(epoch=None).order_by().values_list("id", "epoch", "submitted_at")
    for run_id, epoch, stored in rows:
        if epoch in over and stored > over[epoch] + grace:
            wrong.append(f"run {run_id} was stored {stored - over[epoch]} after its term {epoch}")
    return wrong


CHECKS: dict[str, Callable[[Path], list[str]]] = {
    "I1": no_slot_lost,
    "I2": no_slot_twice,
    "I4": effects_exactly_once,
    "I5": every_start_has_its_attempt,
    "I6": guarded_runs_do_not_overlap,
    "I7": epochs_only_grow,
}


def _some(slots: list[dt.datetime]) -> str:
    named = ", ".join(slot.isoformat() for slot in slots[:_MOST_NAMED])
    return f"{named} ..." if len(slots) > _MOST_NAMED else named
