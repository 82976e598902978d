"""Registering, triggering, pausing and filling: what people do with schedules."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from sync_scheduler import (
    InvalidInput,
    ScheduleExists,
    UnknownJob,
    clock,
    cron,
    every,
    once,
    signals,
)
from sync_scheduler.errors import InvalidRule
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import fingerprint
from sync_scheduler.store import moves, registrations
from tests.testapp import jobs

pytestmark = pytest.mark.django_db

HOURLY = cron("0 * * * *", tz="Europe/Berlin")
HOUR = dt.timedelta(hours=1)


def register(name: str = "s", **changes: Any) -> Any:
    return Schedule.objects.register(name, **{"job": jobs.noop, "rule": HOURLY, **changes})


def test_registering_says_whether_it_created_or_updated() -> None:  # A3
    first, again = register(), register()
    changed = register(overlap="queue")

    assert (first.created, first.updated) == (True, False)
    assert (again.created, again.updated) == (False, False)
    assert (changed.created, changed.updated) == (False, True)
    assert Schedule.objects.get().overlap == "queue"


def test_registering_again_keeps_the_next_run() -> None:  # A3
    schedule = register().schedule
    kept = clock.now() + dt.timedelta(minutes=7)
    Schedule.objects.update(next_run_at=kept)
    register(overlap="queue", input={})

    schedule.refresh_from_db()
    assert schedule.next_run_at == kept


@pytest.mark.parametrize(
    "rule", [cron("30 * * * *", tz="Europe/Berlin"), cron("0 * * * *", tz="Asia/Kathmandu")]
)
def test_a_changed_rule_or_zone_computes_the_next_run_anew(rule: Any) -> None:  # A3
    register()
    stale = clock.now() + dt.timedelta(days=3)
    Schedule.objects.update(next_run_at=stale)
    schedule = register(rule=rule).schedule

    schedule.refresh_from_db()
    assert schedule.next_run_at == schedule.preview(1)[0]
    assert schedule.next_run_at < stale


@pytest.mark.parametrize(
    "option",
    [
        {"jitter": -1},
        {"jitter": "5"},
        {"jitter": dt.timedelta(seconds=-1)},
        {"misfire_grace": float("nan")},
        {"misfire_grace": -5},
        {"enabled": "no"},
        {"input": [1]},
        {"meta": "team a"},
    ],
)
def test_an_option_that_cannot_be_is_refused_wherever_it_is_said(
    option: dict[str, Any],
) -> None:  # A12
    with pytest.raises((InvalidRule, InvalidInput), match=next(iter(option))):
        register(**option)
    with pytest.raises((InvalidRule, InvalidInput), match=next(iter(option))):
        register(rule=cron("0 * * * *", tz="UTC", **option))

    assert not Schedule.objects.exists()


@pytest.mark.parametrize("other", ["S", "s "])
def test_a_schedule_never_takes_the_place_of_one_with_a_similar_name(other: str) -> None:  # A3
    # By default MySQL and MariaDB take these for the same.
    register("s")
    with contextlib.suppress(InvalidInput):
        register(other, rule=cron("30 * * * *", tz="UTC"))

    assert not register("s").updated


def test_an_interval_keeps_counting_from_where_it_began() -> None:  # A3
    first = register(rule=every(minutes=10)).schedule
    Schedule.objects.update(anchor_at=first.anchor_at - dt.timedelta(minutes=3))
    again = register(rule=every(minutes=10))

    assert not again.updated
    assert again.schedule.anchor_at == first.anchor_at - dt.timedelta(minutes=3)


def test_an_interval_begins_at_its_start_wherever_that_is_said() -> None:  # A12
    start = dt.datetime(2100, 1, 1, 12, tzinfo=dt.UTC)
    inside = register("inside", rule=every(minutes=7, start_at=start)).schedule
    beside = register("beside", rule=every(minutes=7), start_at=start)
    again = register("beside", rule=every(minutes=7), start_at=start)

    assert inside.next_run_at == beside.schedule.next_run_at == start
    assert not again.updated


def test_a_new_end_does_not_move_an_interval() -> None:  # A3
    first = register(rule=every(minutes=10)).schedule
    shift = dt.timedelta(minutes=3)
    Schedule.objects.update(
        anchor_at=first.anchor_at - shift, next_run_at=first.next_run_at - shift
    )
    ended = register(rule=every(minutes=10), end_at=clock.now() + HOUR)

    assert ended.updated
    assert ended.schedule.next_run_at == first.next_run_at - shift


def due_for(hours: float) -> tuple[Schedule, list[dt.datetime]]:
    """A schedule of every hour that nobody has dispatched for so long, and its slots since."""
    register(rule=every(hours=1))
    first = clock.now().replace(microsecond=0) - hours * HOUR
    Schedule.objects.update(anchor_at=first - HOUR, next_run_at=first)
    return Schedule.objects.get(), [first + n * HOUR for n in range(int(hours) + 1)]


def switch_off(schedule: Schedule) -> None:
    schedule.enabled = False
    schedule.save()


@pytest.mark.parametrize(
    "change",
    [lambda s: register(rule=HOURLY), switch_off, registrations.mark_gone],
    ids=["another rule", "switched off", "gone from the code"],
)
def test_slots_that_were_due_when_the_schedule_was_changed_are_recorded(
    change: Callable[[Schedule], object],
) -> None:  # A3, A15
    schedule, passed = due_for(hours=2.5)
    change(schedule)

    (record,) = Run.objects.all()
    assert (record.status, record.reason, record.slot) == ("skipped", "changed", passed[-1])
    assert record.key == f"s:{passed[-1]:%Y-%m-%dT%H:%M:%SZ}"
    assert (record.meta["from"], record.meta["count"]) == (passed[0].isoformat(), 3)
    schedule.refresh_from_db()
    assert schedule.last_slot == passed[-1]
    assert schedule.next_run_at is None or schedule.next_run_at > passed[-1] + HOUR / 2
    filled = schedule.backfill(passed[0], passed[-1])
    assert len(filled) == (3 if schedule.kind == "interval" else 2)


def test_slots_of_a_pause_are_recorded_as_such_when_the_schedule_is_changed() -> None:  # A15, A17
    schedule, passed = due_for(hours=0.5)
    schedule.pause(note="stocktaking")
    register(rule=HOURLY)

    (record,) = Run.objects.all()
    assert (record.slot, record.reason, record.meta) == (
        passed[0], "paused", {"note": "stocktaking"},
    )  # fmt: skip


def test_changing_anything_else_passes_over_nothing() -> None:  # A3, A15
    schedule, passed = due_for(hours=0.5)
    register(rule=every(hours=1), overlap="queue")

    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.last_slot) == (passed[0], None)
    assert not Run.objects.exists()


def test_a_reminder_that_is_moved_was_not_missed() -> None:  # A15
    at = clock.now() - dt.timedelta(seconds=5)
    register(rule=once(at))
    moved = register(rule=once(at + HOUR)).schedule

    assert moved.next_run_at == at + HOUR
    assert not Run.objects.exists()


@pytest.mark.parametrize("unreadable", [{"expression": "no rule"}, {"timezone": "Mars/Crater"}])
def test_a_rule_that_cannot_be_read_can_be_mended(unreadable: dict[str, str]) -> None:  # A8
    register()
    past = clock.now() - HOUR
    Schedule.objects.update(**unreadable, next_run_at=past)
    mended = register().schedule

    assert mended.next_run_at == mended.preview(1)[0]
    assert not Run.objects.exists()


def test_every_change_raises_the_version() -> None:  # L14
    before = register().schedule.version
    register()
    assert Schedule.objects.get().version == before
    register(overlap="queue")
    assert Schedule.objects.get().version == before + 1


def test_what_an_operator_switched_off_stays_off() -> None:  # A3
    schedule = register().schedule
    schedule.enabled = False
    schedule.save()
    register()
    register(overlap="queue")

    assert Schedule.objects.get().enabled is False


def test_adding_a_name_that_is_taken_is_a_clear_error() -> None:  # A16
    Schedule.objects.add("x", job=jobs.noop, rule=HOURLY)
    with pytest.raises(ScheduleExists, match="'x' exists already"):
        Schedule.objects.add("x", job=jobs.noop, rule=HOURLY)
    assert Schedule.objects.count() == 1


def test_adding_what_would_never_fire_is_refused() -> None:  # A12
    with pytest.raises(InvalidRule):
        Schedule.objects.add("late", job=jobs.noop, rule=once(clock.now() - 24 * HOUR))
    assert Schedule.objects.count() == 0


def test_a_reminder_for_a_moment_ago_is_due_at_once() -> None:  # A12, A16
    at = clock.now() - dt.timedelta(seconds=2)
    schedule = Schedule.objects.add("reminder", job=jobs.noop, rule=once(at))

    assert schedule.next_run_at == at


@pytest.mark.parametrize("job", ["no.such.job", "os.system"])
def test_a_job_that_is_not_registered_is_refused(job: str) -> None:  # A6
    with pytest.raises(UnknownJob):
        register(job=job)
    assert Schedule.objects.count() == 0


def test_input_is_checked_when_the_schedule_is_made() -> None:  # B3
    with pytest.raises(InvalidInput):
        register(job=jobs.add, input={"a": 1})
    with pytest.raises(InvalidInput):
        register(job=jobs.add, input={"a": 1, "b": "two"})
    assert Schedule.objects.count() == 0


def test_unregistering_is_idempotent_and_leaves_dispatched_runs() -> None:  # A10
    schedule = register().schedule
    run = schedule.trigger_now()

    assert Schedule.objects.unregister("s") is True
    assert Schedule.objects.unregister("s") is False
    run.refresh_from_db()
    assert (run.status, run.schedule_id, run.schedule_name) == ("submitted", None, "s")


def test_unregistering_takes_the_name_to_the_letter() -> None:
    # A10, C8: MySQL takes "S" for "s"
    register()
    assert Schedule.objects.unregister("S") is False
    assert Schedule.objects.filter(name="s").exists()


def test_a_late_save_of_a_stale_instance_does_not_move_the_next_run() -> None:  # A3
    register()
    stale = Schedule.objects.get()
    moved = clock.now() + 3 * HOUR
    Schedule.objects.update(next_run_at=moved, last_slot=moved - HOUR)
    stale.note = "edited"
    stale.save()

    fresh = Schedule.objects.get()
    assert (fresh.note, fresh.next_run_at, fresh.last_slot) == ("edited", moved, moved - HOUR)


def test_a_late_save_does_not_end_a_pause() -> None:  # A17
    register()
    stale = Schedule.objects.get()
    Schedule.objects.get().pause(note="audit")
    stale.save()

    assert Schedule.objects.get().is_paused


def test_switching_off_and_on_goes_on_with_the_future() -> None:  # A17
    schedule = register().schedule
    schedule.enabled = False
    schedule.save()
    assert Schedule.objects.get().next_run_at is None
    schedule.enabled = True
    schedule.save()

    found = Schedule.objects.get().next_run_at
    assert found is not None
    assert found > clock.now()


# ---------------------------------------------------------------------------- trigger


def test_triggering_submits_the_stored_input_and_changes_no_cron_state() -> None:  # A5
    schedule = register(job=jobs.add, input={"a": 1, "b": 2}).schedule
    before = Schedule.objects.values().get()
    run = schedule.trigger_now()

    assert (run.trigger, run.input, run.slot) == ("manual", {"a": 1, "b": 2}, None)
    assert (run.schedule_id, run.guard) == (schedule.pk, schedule.pk)
    assert Schedule.objects.values().get() == before


def test_a_repeated_trigger_with_a_key_is_the_same_run() -> None:  # A5
    schedule = register(job=jobs.add, input={"a": 1, "b": 2}).schedule
    first = schedule.trigger_now(key="monday")
    Schedule.objects.update(input={"a": 5, "b": 5})
    again = schedule.trigger_now(key="monday")
    other = schedule.trigger_now(key="tuesday")

    assert first.id == again.id
    assert other.id != first.id


def test_a_trigger_that_cannot_be_is_rejected_with_its_reason() -> None:  # A5, A9
    schedule = register().schedule
    Schedule.objects.update(job="tests.vanished")
    told: list[str] = []

    def receiver(reason: str, **_: object) -> None:
        told.append(reason)

    signals.trigger_rejected.connect(receiver)
    try:
        with pytest.raises(UnknownJob):
            schedule.trigger_now()
    finally:
        signals.trigger_rejected.disconnect(receiver)

    assert told == ["unknown_job"]
    assert Run.objects.count() == 0


@pytest.mark.parametrize("stored", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": "two"}])
def test_a_trigger_with_an_input_that_the_handler_no_longer_takes_is_refused(
    stored: dict[str, Any],
) -> None:  # A5, B3
    schedule = register(job=jobs.add, input={"a": 1, "b": 2}).schedule
    first = schedule.trigger_now(key="monday")
    Schedule.objects.update(input=stored)

    with pytest.raises(InvalidInput, match=r"tests\.add"):
        schedule.trigger_now()
    with pytest.raises(InvalidInput):
        schedule.trigger_now(key="tuesday")
    assert schedule.trigger_now(key="monday").id == first.id
    assert Run.objects.count() == 1


def test_a_receiver_that_raises_disturbs_nothing() -> None:  # A9
    def receiver(**_: object) -> None:
        raise RuntimeError("broken metrics")

    signals.schedule_registered.connect(receiver)
    signals.trigger_submitted.connect(receiver)
    try:
        schedule = register().schedule
        run = schedule.trigger_now()
    finally:
        signals.schedule_registered.disconnect(receiver)
        signals.trigger_submitted.disconnect(receiver)

    assert Run.objects.get().id == run.id


# ---------------------------------------------------------------------------- pause


def test_resuming_never_fires_a_burst_and_says_what_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # A17, A15
    now = clock.now()
    # It stands still: otherwise the next slot may come while we look.
    monkeypatch.setattr(clock, "now", lambda: now)
    schedule = register(rule=cron("* * * * *", tz="UTC"), misfire="catch_up_all").schedule
    schedule.pause(note="migration")
    ago = (clock.now() - HOUR).replace(second=0, microsecond=0)
    Schedule.objects.update(next_run_at=ago)
    schedule.resume()

    assert schedule.next_run_at is not None
    assert schedule.next_run_at > clock.now()
    record = Run.objects.get()
    assert (record.status, record.reason) == ("skipped", "paused")
    assert record.meta["count"] in {60, 61}
    assert not schedule.is_paused


def test_a_pause_is_over_when_its_time_has_come() -> None:  # A17
    schedule = register().schedule
    schedule.pause(until=clock.now() - dt.timedelta(seconds=1))

    assert not schedule.is_paused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (HOUR, "a datetime, not timedelta"),
        ("2031-01-01", "a datetime, not str"),
        (dt.datetime(2031, 1, 1), "a time zone"),  # noqa: DTZ001  # that is what is wrong with it
    ],
)
def test_what_is_no_instant_is_refused_in_words(given: Any, said: str) -> None:  # A17
    schedule, at = register().schedule, clock.now()
    with pytest.raises(InvalidInput, match=said):
        schedule.pause(until=given)
    for start, end in ((given, at), (at, given)):
        with pytest.raises(InvalidInput, match=said):
            schedule.backfill(start, end)

    assert Schedule.objects.get().paused_at is None


# ---------------------------------------------------------------------------- backfill


def test_backfill_submits_the_slots_that_have_no_run() -> None:  # A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    runs = schedule.backfill(start, start + dt.timedelta(days=4))

    assert [run.slot for run in runs] == [start + dt.timedelta(days=n) for n in range(5)]
    assert {run.trigger for run in runs} == {"backfill"}
    assert {run.guard for run in runs} == {schedule.pk}
    assert runs[0].key == "backfill:s:2024-03-01T00:00:00Z"
    schedule.refresh_from_db()
    assert schedule.last_slot is None


def test_backfill_also_fills_the_time_before_an_interval_was_registered() -> None:  # A12, A17
    schedule = register(rule=every(hours=1)).schedule
    began = schedule.anchor_at
    runs = schedule.backfill(began - 3 * HOUR, began + dt.timedelta(minutes=30))
    bounded = register("bounded", rule=every(hours=1, start=began)).schedule

    assert [run.slot for run in runs] == [began - n * HOUR for n in (3, 2, 1, 0)]
    assert bounded.backfill(began - 3 * HOUR, began - HOUR) == []


def test_the_same_slot_is_filled_once() -> None:  # A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    first = schedule.backfill(start, start)
    again = schedule.backfill(start, start)

    assert [run.id for run in first] == [run.id for run in again]


def test_backfill_fills_skipped_slots_and_leaves_completed_ones_unless_asked() -> None:  # A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    days = [dt.datetime(2024, 3, day, tzinfo=dt.UTC) for day in (1, 2)]
    for day, status in zip(days, ("completed", "skipped"), strict=True):
        Run.objects.create(
            job="tests.noop",
            schedule_id=schedule.pk,
            slot=day,
            trigger="slot",
            status=status,
            run_at=day,
            submitted_at=day,
        )
    filled = schedule.backfill(days[0], days[1])
    everything = schedule.backfill(days[0], days[1], again=True)

    assert [run.slot for run in filled] == [days[1]]
    assert [run.slot for run in everything] == days


def test_backfill_leaves_what_a_removed_schedule_of_the_same_name_has_run() -> None:  # A10, A17
    rule = cron("0 0 * * *", tz="UTC")
    days = [dt.datetime(2024, 3, day, tzinfo=dt.UTC) for day in (1, 2)]
    before = register(rule=rule).schedule
    for day, status in zip(days, ("completed", "skipped"), strict=True):
        key = moves.slot_key("s", day)
        Run.objects.create(
            job="tests.noop",
            schedule_id=before.pk,
            slot=day,
            key=key,
            dedupe=fingerprint("default", key),
            trigger="slot",
            status=status,
            run_at=day,
            submitted_at=day,
        )
    Schedule.objects.unregister("s")
    filled = register(rule=rule).schedule.backfill(days[0], days[1])

    assert [run.slot for run in filled] == [days[1]]


def test_a_slot_is_filled_once_whatever_the_schedule_is_called() -> None:  # A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    first = schedule.backfill(start, start)
    schedule.name = "renamed"
    schedule.save()
    again = schedule.backfill(start, start + dt.timedelta(days=1))

    assert again[0].id == first[0].id
    assert [run.key for run in again[1:]] == ["backfill:renamed:2024-03-02T00:00:00Z"]


def test_backfill_fills_a_slot_that_could_not_be_dispatched_unless_it_was_retried() -> None:  # A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    days = [dt.datetime(2024, 3, day, tzinfo=dt.UTC) for day in (1, 2)]
    letters = [
        Run.objects.create(
            job="tests.noop",
            schedule_id=schedule.pk,
            slot=day,
            trigger="slot",
            status="failed",
            reason="dispatch_failed",
            run_at=day,
            submitted_at=day,
        )
        for day in days
    ]
    letters[1].retry()
    filled = schedule.backfill(days[0], days[1])

    assert [run.slot for run in filled] == [days[0]]


def test_backfill_refuses_an_input_that_the_handler_no_longer_takes() -> None:  # B3, A17
    schedule = register(rule=cron("0 0 * * *", tz="UTC")).schedule
    Schedule.objects.update(input={"region": "eu"})
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    with pytest.raises(InvalidInput, match="region"):
        schedule.backfill(start, start)

    assert not Run.objects.exists()


def test_backfill_has_a_limit_and_its_own_overlap_rule() -> None:  # A17
    schedule = register(rule=cron("* * * * *", tz="UTC")).schedule
    start = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
    with (
        override_settings(SYNC_SCHEDULER={"MAX_BACKFILL": 10}),
        pytest.raises(InvalidInput, match="at most 10"),
    ):
        schedule.backfill(start, start + HOUR)
    beside = schedule.backfill(start, start, overlap="concurrent")

    assert Run.objects.count() == 1
    assert beside[0].guard is None


def test_backfill_leaves_the_future_and_what_is_still_to_be_dispatched() -> None:  # A17
    schedule = register(rule=cron("* * * * *", tz="UTC")).schedule
    due = (clock.now() - dt.timedelta(minutes=5)).replace(second=0, microsecond=0)
    Schedule.objects.update(next_run_at=due)
    runs = schedule.backfill(due - dt.timedelta(minutes=2), clock.now() + HOUR)

    assert [run.slot for run in runs] == [
        due - dt.timedelta(minutes=2),
        due - dt.timedelta(minutes=1),
    ]


# ---------------------------------------------------------------------------- transactions


def test_a_schedule_made_in_a_transaction_that_fails_does_not_exist() -> None:  # A16
    with pytest.raises(RuntimeError), transaction.atomic():
        Schedule.objects.add("x", job=jobs.noop, rule=HOURLY)
        raise RuntimeError("the order was not placed")

    assert not Schedule.objects.exists()
