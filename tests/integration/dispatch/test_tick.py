"""One tick: what is due becomes Runs or the record of why not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.test import override_settings

from sync_scheduler import cron, every, once
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run, Schedule
from sync_scheduler.timing.slots import jitter_for
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db

MINUTE = dt.timedelta(minutes=1)


def make(name: str, due: dt.datetime, **options: object) -> Schedule:
    """A schedule of every minute whose next run is `due`."""
    options.setdefault("job", jobs.noop)
    options.setdefault("rule", cron("* * * * *", tz="UTC"))
    schedule = Schedule.objects.register(name, **options).schedule  # type: ignore[arg-type]
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=due)
    schedule.refresh_from_db()
    return schedule


def at(minutes: float) -> dt.datetime:
    """A full minute, so many minutes from a moment that is always the same."""
    return dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)


def statuses(schedule: Schedule) -> list[tuple[float, str, str]]:
    rows = Run.objects.filter(schedule_id=schedule.pk).order_by("slot")
    found = []
    for run in rows:
        assert run.slot is not None
        found.append(((run.slot - at(0)) / MINUTE, run.status, run.reason))
    return found


def test_a_due_slot_becomes_a_run_and_the_schedule_moves_on() -> None:  # A1, A7
    schedule = make("daily", at(0), input={"a": 1, "b": 2}, job=jobs.add)
    term = lead()

    done = tick(term, at(0.1))

    assert (done.due, done.dispatched, done.held_up) == (1, 1, 0)
    run = Run.objects.get(schedule_id=schedule.pk)
    assert run.key == "daily:2031-05-06T07:00:00Z"
    assert (run.status, run.trigger, run.input) == ("submitted", "slot", {"a": 1, "b": 2})
    assert (run.slot, run.run_at) == (at(0), at(0))
    assert (run.epoch, run.schedule_name, run.guard) == (term.epoch, "daily", schedule.pk)
    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.last_slot) == (at(1), at(0))


def test_the_same_slot_never_becomes_two_runs() -> None:  # A7
    schedule = make("twice", at(0))
    term = lead()
    tick(term, at(0.1))
    # Whoever sets it back, by hand or from an old backup, finds the watermark.
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=at(0))
    tick(term, at(0.1))

    assert statuses(schedule) == [(0, "submitted", "")]
    schedule.refresh_from_db()
    assert schedule.next_run_at == at(1)


def test_a_watermark_that_no_clock_can_have_reached_is_not_believed() -> None:
    # L7: a leader of the year after would have silenced the schedule for that long
    schedule = make("daily", at(0))
    Schedule.objects.filter(pk=schedule.pk).update(last_slot=at(0) + dt.timedelta(days=365))

    assert tick(lead(), at(0.1)).dispatched == 1
    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.last_slot) == (at(1), at(0))


def test_a_slot_that_exists_already_is_done_and_does_not_wedge_the_schedule() -> None:  # A7
    schedule = make("again", at(0), overlap="concurrent")
    term = lead()
    tick(term, at(0.1))
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=at(0), last_slot=None)
    tick(term, at(0.1))

    assert statuses(schedule) == [(0, "submitted", "")]
    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.last_slot) == (at(1), at(0))


def test_a_schedule_made_anew_under_the_same_name_does_not_repeat_a_slot() -> None:  # A7
    make("remade", at(0))
    term = lead()
    tick(term, at(0.1))
    assert Schedule.objects.unregister("remade")
    schedule = make("remade", at(0))
    tick(term, at(0.1))

    assert Run.objects.filter(schedule_name="remade").count() == 1
    schedule.refresh_from_db()
    assert schedule.next_run_at == at(1)


def test_pruning_the_run_does_not_forget_the_slot() -> None:  # A7, B10; H-2
    schedule = make("pruned", at(0))
    term = lead()
    tick(term, at(0.1))
    Run.objects.all().delete()
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=at(0))
    tick(term, at(0.1))

    assert statuses(schedule) == []


def test_an_old_epoch_changes_nothing() -> None:  # A2
    schedule = make("fenced", at(0))
    old = lead("one")
    lead("other")

    with pytest.raises(LeadershipLost):
        tick(old, at(0.1))

    assert statuses(schedule) == []
    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.last_slot) == (at(0), None)


def test_a_term_whose_proof_is_old_does_nothing() -> None:  # A2
    schedule = make("untrusted", at(0))
    term = lead()
    term.end()

    with pytest.raises(LeadershipLost):
        tick(term, at(0.1))

    assert statuses(schedule) == []


def test_a_disabled_schedule_is_left_alone() -> None:
    schedule = make("off", at(0))
    Schedule.objects.filter(pk=schedule.pk).update(enabled=False)

    assert tick(lead(), at(0.1)).due == 0
    assert statuses(schedule) == []


# ---------------------------------------------------------------------------- misfire


def test_misfire_skip_jumps_to_the_next_future_slot_and_says_so() -> None:  # A4, A15
    schedule = make("skip", at(0))
    tick(lead(), at(3.5))

    # The newest one is within the grace of 60 s.
    assert statuses(schedule) == [
        (0, "skipped", "misfire"),
        (1, "skipped", "misfire"),
        (2, "skipped", "misfire"),
        (3, "submitted", ""),
    ]
    schedule.refresh_from_db()
    assert schedule.next_run_at == at(4)


def test_catch_up_one_runs_the_newest_missed_slot() -> None:  # A4
    rule = cron("*/10 * * * *", tz="UTC")
    schedule = make("one", at(0), rule=rule, misfire="catch_up_one")
    tick(lead(), at(35))

    assert statuses(schedule) == [
        (0, "skipped", "misfire"),
        (10, "skipped", "misfire"),
        (20, "skipped", "misfire"),
        (30, "submitted", ""),
    ]


def test_catch_up_all_runs_all_missed_slots() -> None:  # A4
    schedule = make("all", at(0), misfire="catch_up_all", overlap="concurrent")
    tick(lead(), at(20.5))

    assert statuses(schedule) == [(minute, "submitted", "") for minute in range(21)]


def test_an_interval_whose_next_run_was_set_before_it_began_leaves_no_slot_out() -> None:  # A15
    rule = every(minutes=10)
    for name in ("skip", "catch_up_one", "catch_up_all"):
        make(name, at(0), rule=rule, misfire=name)
    Schedule.objects.update(anchor_at=at(45))
    tick(lead(), at(45))

    missed = [(minute, "skipped", "misfire") for minute in (5, 15, 25, 35)]
    on_time, caught_up = (45, "submitted", ""), (35, "submitted", "")
    by_name = {schedule.name: statuses(schedule) for schedule in Schedule.objects.all()}
    assert by_name["skip"] == [*missed, on_time]
    assert by_name["catch_up_one"] == [*missed[:3], caught_up, (45, "skipped", "overlap")]
    assert by_name["catch_up_all"] == [(m, "submitted", "") for m in (5, 15, 25, 35, 45)]
    assert set(Schedule.objects.values_list("next_run_at", flat=True)) == {at(55)}


def test_catch_up_all_is_bounded_and_the_rest_is_recorded() -> None:  # A4, A15
    schedule = make("bounded", at(0), misfire="catch_up_all", max_catch_up=5, overlap="concurrent")
    tick(lead(), at(60 * 24 * 365 + 0.5))

    runs = Run.objects.filter(schedule_id=schedule.pk)
    # Five that were missed, and the one that is on time.
    assert runs.filter(status=State.SUBMITTED).count() == 6
    assert runs.filter(reason="catch_up_limit").count() <= 101
    rest = runs.exclude(meta={}).get(meta__has_key="count")
    assert rest.meta["from"] == at(0).isoformat()
    assert runs.count() - 1 + rest.meta["count"] == 60 * 24 * 365 + 1


def test_the_record_of_a_missed_slot_says_who_led_or_that_nobody_did() -> None:  # A15
    schedule = make("why", at(0))
    tick(lead("somebody"), at(3.5))

    missed = Run.objects.filter(schedule_id=schedule.pk, reason="misfire").first()
    assert missed is not None
    assert missed.meta == {"leader": "somebody"}


# ---------------------------------------------------------------------------- overlap


def test_overlap_skip_records_the_slot_while_a_run_is_active() -> None:  # A11
    schedule = make("busy", at(0))
    term = lead()
    tick(term, at(0.1))
    tick(term, at(1.1))

    assert statuses(schedule) == [(0, "submitted", ""), (1, "skipped", "overlap")]


def test_overlap_skip_runs_again_when_the_run_has_ended() -> None:  # A11
    schedule = make("free", at(0))
    term = lead()
    tick(term, at(0.1))
    Run.objects.update(status="completed")
    tick(term, at(1.1))

    assert statuses(schedule) == [(0, "completed", ""), (1, "submitted", "")]


def test_overlap_queue_lets_one_wait_and_records_the_rest() -> None:  # A11
    schedule = make("queue", at(0), overlap="queue")
    term = lead()
    for minute in range(4):
        tick(term, at(minute + 0.1))

    assert statuses(schedule) == [
        (0, "submitted", ""),
        (1, "submitted", ""),
        (2, "skipped", "queue_full"),
        (3, "skipped", "queue_full"),
    ]
    assert set(Run.objects.values_list("guard", flat=True)) == {schedule.pk}


def test_overlap_concurrent_runs_beside() -> None:  # A11
    schedule = make("beside", at(0), overlap="concurrent")
    term = lead()
    for minute in range(3):
        tick(term, at(minute + 0.1))

    assert statuses(schedule) == [(m, "submitted", "") for m in range(3)]
    assert Run.objects.filter(guard__isnull=False).count() == 0


def test_an_unknown_overlap_is_skip() -> None:  # A11
    schedule = make("odd", at(0), overlap="whatever")
    Schedule.objects.filter(pk=schedule.pk).update(overlap="nonsense")
    term = lead()
    tick(term, at(0.1))
    tick(term, at(1.1))

    assert statuses(schedule) == [(0, "submitted", ""), (1, "skipped", "overlap")]


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_slots_that_are_caught_up_with_run_one_after_the_other(overlap: str) -> None:  # A4, A11
    schedule = make("both", at(0), misfire="catch_up_all", overlap=overlap)
    term = lead()
    tick(term, at(3.5))

    assert statuses(schedule) == [(minute, "submitted", "") for minute in range(4)]
    assert set(Run.objects.values_list("guard", flat=True)) == {schedule.pk}
    tick(term, at(4.1))
    assert statuses(schedule)[4][1] == "skipped"


def test_catching_up_does_not_run_beside_a_run_that_is_still_active() -> None:  # A4, A11
    schedule = make("still", at(0), misfire="catch_up_all", overlap="skip")
    term = lead()
    tick(term, at(0.1))
    tick(term, at(3.5))

    assert statuses(schedule) == [
        (0, "submitted", ""),
        (1, "skipped", "overlap"),
        (2, "skipped", "overlap"),
        (3, "skipped", "overlap"),
    ]


@pytest.mark.parametrize("misfire", ["skip", "catch_up_one"])
def test_slots_that_are_only_a_little_late_overlap_as_ever(misfire: str) -> None:  # A11
    schedule = make("late", at(0), misfire=misfire, misfire_grace=600)
    tick(lead(), at(2.5))

    assert [status for _, status, _ in statuses(schedule)] == ["submitted", "skipped", "skipped"]


def test_backfills_that_wait_do_not_make_regular_slots_overlap() -> None:  # A11, A17
    schedule = make("filled", at(0))
    Run.objects.create(
        job="tests.noop",
        schedule_id=schedule.pk,
        trigger="backfill",
        run_at=at(-5),
        submitted_at=at(-5),
    )
    tick(lead(), at(0.1))

    assert Run.objects.get(trigger="slot").status == "submitted"


# ---------------------------------------------------------------------------- pause


def test_slots_of_a_paused_schedule_pass_and_are_recorded() -> None:  # A17, A15
    schedule = make("paused", at(0))
    schedule.pause(note="audit", by="ann")
    term = lead()
    tick(term, at(0.1))
    tick(term, at(1.1))

    assert statuses(schedule) == [(0, "skipped", "paused"), (1, "skipped", "paused")]
    run = Run.objects.filter(schedule_id=schedule.pk).first()
    assert run is not None
    assert run.meta == {"note": "audit", "by": "ann"}


def test_a_pause_ends_by_itself() -> None:  # A17
    schedule = make("until", at(0))
    schedule.pause(until=at(1.5))
    term = lead()
    tick(term, at(0.1))
    tick(term, at(2.1))

    assert statuses(schedule) == [
        (0, "skipped", "paused"),
        (1, "skipped", "paused"),
        (2, "submitted", ""),
    ]
    schedule.refresh_from_db()
    assert schedule.paused_at is None


# ---------------------------------------------------------------------------- jitter, once, seconds


def test_jitter_moves_when_it_runs_and_never_the_slot() -> None:  # A12
    schedule = make("jittered", at(0), jitter=30)
    tick(lead(), at(0))

    run = Run.objects.get(schedule_id=schedule.pk)
    assert run.slot == at(0)
    assert at(0) < run.run_at < at(0.5)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_jitter_keeps_the_order_of_slots_that_are_caught_up_with(overlap: str) -> None:  # A4, A12
    schedule = make("jittered", at(0), jitter=600, misfire="catch_up_all", overlap=overlap)
    tick(lead(), at(20.5))

    runs = list(Run.objects.filter(schedule_id=schedule.pk, status="submitted").order_by("run_at"))
    found = [run.slot for run in runs if run.slot is not None]
    assert found == sorted(found)
    assert len(found) == 21
    assert all(at(0) <= slot <= run.run_at for slot, run in zip(found, runs, strict=True))
    assert runs[-1].run_at < at(20) + dt.timedelta(seconds=601)


def test_jitter_spreads_slots_that_may_run_beside_each_other() -> None:  # A12
    schedule = make("jittered", at(0), jitter=600, misfire="catch_up_all", overlap="concurrent")
    tick(lead(), at(20.5))

    runs = Run.objects.filter(schedule_id=schedule.pk, status="submitted")
    found = {run.slot: run.run_at for run in runs if run.slot is not None}
    assert len(found) == 21
    assert found == {slot: slot + jitter_for("jittered", slot, 600) for slot in found}


def test_once_runs_once() -> None:  # A12
    schedule = make("once", at(0), rule=once(at(0)))
    term = lead()
    tick(term, at(0.1))
    tick(term, at(5))

    assert statuses(schedule) == [(0, "submitted", "")]
    schedule.refresh_from_db()
    assert schedule.next_run_at is None


def test_every_second_leaves_no_slot_out_after_a_late_tick() -> None:  # A4, promise 5
    rule = every(seconds=1, start=at(0))
    schedule = make("second", at(0), rule=rule, overlap="concurrent")
    term = lead()
    tick(term, at(0) + dt.timedelta(seconds=10.5))

    assert Run.objects.filter(schedule_id=schedule.pk, status="submitted").count() == 11


# ---------------------------------------------------------------------------- failures


@pytest.fixture
def unknown_job() -> Iterator[str]:
    registry_name = "tests.vanished"
    assert registry.find(registry_name) is None
    yield registry_name


def spoil(schedule: Schedule, **values: object) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(**values)


def test_an_unknown_job_is_a_dispatch_failure_with_a_clear_error(unknown_job: str) -> None:  # A6
    schedule = make("strict", at(0))
    spoil(schedule, job=unknown_job)
    done = tick(lead(), at(0.1))

    assert done.failed == 1
    schedule.refresh_from_db()
    assert schedule.failures == 1
    assert unknown_job in schedule.error
    assert schedule.next_run_at == at(0)
    assert schedule.retry_dispatch_at is not None
    assert schedule.retry_dispatch_at > at(0.1)


def test_an_unknown_job_that_comes_back_is_dispatched(unknown_job: str) -> None:  # A6
    schedule = make("back", at(0))
    spoil(schedule, job=unknown_job)
    term = lead()
    tick(term, at(0.1))
    spoil(schedule, job="tests.noop")
    tick(term, at(0.2))

    assert statuses(schedule) == [(0, "submitted", "")]
    schedule.refresh_from_db()
    assert (schedule.failures, schedule.error, schedule.retry_dispatch_at) == (0, "", None)


@override_settings(SYNC_SCHEDULER={"STRICT_JOBS": False})
def test_when_not_strict_an_unknown_job_skips_the_slot_and_moves_on(unknown_job: str) -> None:  # A6
    schedule = make("lenient", at(0))
    spoil(schedule, job=unknown_job)
    done = tick(lead(), at(0.1))

    assert done.failed == 0
    assert statuses(schedule) == [(0, "skipped", "unknown_job")]
    schedule.refresh_from_db()
    assert schedule.next_run_at == at(1)


@override_settings(SYNC_SCHEDULER={"DISPATCH_BATCH": 1})
def test_a_poisoned_schedule_blocks_nobody_even_with_batches_of_one(
    unknown_job: str,
) -> None:  # A6, A14
    bad = [make(f"bad-{i}", at(-i)) for i in range(3)]
    for schedule in bad:
        spoil(schedule, job=unknown_job)
    good = make("good", at(0))
    done = tick(lead(), at(0.1))

    assert (done.due, done.failed, done.dispatched) == (4, 3, 1)
    assert statuses(good) == [(0, "submitted", "")]


def test_after_five_failures_the_slot_is_passed_over_and_kept(unknown_job: str) -> None:  # A8
    schedule = make("dead", at(0))
    spoil(schedule, job=unknown_job)
    term = lead()
    now = at(0.1)
    for _ in range(5):
        tick(term, now)
        schedule.refresh_from_db()
        now = max(now, schedule.retry_dispatch_at or now)

    letter = DeadLetter.objects.get()
    assert (letter.kind, letter.slot, letter.schedule_name) == ("slot", at(0), "dead")
    assert letter.reason == "dispatch_failed"
    assert unknown_job in letter.error
    assert statuses(schedule) == [(0, "failed", "dispatch_failed")]
    assert (schedule.next_run_at, schedule.failures) == (at(1), 0)


@pytest.mark.parametrize("overlap", ["skip", "concurrent"])
def test_a_slot_that_is_retried_has_the_policy_of_its_job(
    unknown_job: str, overlap: str
) -> None:  # A8, A11
    schedule = make("late", at(0), overlap=overlap)
    spoil(schedule, job=unknown_job, failures=4)
    tick(lead(), at(0.1))
    failed = Run.objects.get()
    assert (failed.status, failed.reason) == ("failed", "dispatch_failed")
    Run.objects.update(job="tests.fail")  # which has been deployed by now
    again = failed.retry()

    assert again.max_attempts == jobs.fail.policy.max_attempts == 3
    assert again.guard == (schedule.pk if overlap == "skip" else None)


def test_a_rule_that_cannot_be_read_costs_only_itself(unknown_job: str) -> None:  # A14
    bad = make("unreadable", at(0))
    spoil(bad, timezone="Mars/Olympus")
    good = make("readable", at(0))
    term = lead()
    tick(term, at(0.1))
    assert statuses(good) == [(0, "submitted", "")]
    now = at(0.1)
    for _ in range(5):
        bad.refresh_from_db()
        now = max(now, bad.retry_dispatch_at or now)
        tick(term, now)

    bad.refresh_from_db()
    assert bad.next_run_at is None
    assert "Mars/Olympus" in bad.error
    assert DeadLetter.objects.get().schedule_name == "unreadable"


def test_a_value_that_the_database_refuses_costs_only_its_schedule() -> None:  # A14
    bad, good = make("refused", at(0)), make("fine", at(0))
    registry.get("tests.noop")
    spoil(bad, job="tests.limited", input={"tenant": "x"})
    term = lead()
    done = tick(term, at(0.1))

    assert done.dispatched + done.failed == 2
    assert statuses(good) == [(0, "submitted", "")]


def test_pages_are_walked_to_the_end() -> None:  # A6
    made = [make(f"page-{i}", at(-i % 3)) for i in range(7)]
    with override_settings(SYNC_SCHEDULER={"DISPATCH_BATCH": 2}):
        done = tick(lead(), at(0.1))

    due = [s for s in made if s.next_run_at is not None and s.next_run_at <= at(0.1)]
    assert done.due == len(due)
    assert Run.objects.filter(status="submitted").count() >= len(due)
