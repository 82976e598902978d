"""What an operator does with schedules from a shell."""

from __future__ import annotations

import datetime as dt

import pytest
from django.test import override_settings

from sync_scheduler import clock, cron, every
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import registrations
from tests.integration.api.rows import HOUR, a_node, a_run, a_schedule
from tests.integration.commands.shell import failing, scheduler, scheduler_json

pytestmark = pytest.mark.django_db


def test_list_shows_each_schedule_with_its_state() -> None:
    # D3
    a_schedule("working", job="tests.noop", rule=cron("0 6 * * *", tz="Europe/Berlin"))
    a_schedule("resting").pause(note="carrier maintenance")
    a_schedule("off", enabled=False)
    broken = a_schedule("broken")
    Schedule.objects.filter(pk=broken.pk).update(error="No job is registered as 'x'.")
    lines = {line.split("  ")[0]: line for line in scheduler("list").splitlines()}
    assert "Europe/Berlin" in lines["working"]
    assert " ok " in lines["working"]
    assert "has never run" in lines["working"]
    assert "paused: carrier maintenance" in lines["resting"]
    assert "not planned: paused" in lines["resting"]
    assert "disabled" in lines["off"]
    assert "error: No job is registered" in lines["broken"]


def test_list_says_why_a_schedule_that_has_gone_from_the_code_is_disabled() -> None:
    # D3, A15
    registrations.mark_gone(a_schedule("gone"))
    assert "disabled: it is no longer declared in the code." in scheduler("list")
    (entry,) = scheduler_json("list")["schedules"]
    assert (entry["enabled"], entry["note"]) == (False, registrations.GONE_NOTE)


def test_list_names_the_newest_run_of_each_schedule() -> None:
    # D3
    schedule = a_schedule("one")
    a_run(status="completed", schedule=schedule)
    newest = a_run(status="failed", schedule=schedule)
    (entry,) = scheduler_json("list")["schedules"]
    assert entry["last_run"] == {"id": str(newest.id), "status": "failed"}


def test_preview_shows_slots_in_the_zone_of_the_schedule_and_in_utc() -> None:
    # D3, A13
    a_schedule("daily", rule=cron("0 6 * * *", tz="Europe/Berlin"))
    text = scheduler("preview", "daily", "-n", "3")
    assert text.count("06:00:00 CE") == 3
    document = scheduler_json("preview", "daily", "-n", "3")
    assert len(document["slots"]) == 3
    assert all(slot.endswith(("04:00:00Z", "05:00:00Z")) for slot in document["slots"])


@pytest.mark.parametrize("number", ["0", "-1", "1001"])
def test_preview_of_a_senseless_number_is_refused(number: str) -> None:
    # D3
    a_schedule("daily")
    assert "-n must lie between" in failing("preview", "daily", f"-n={number}")[1]


def test_trigger_submits_with_the_stored_input_and_leaves_the_schedule_alone() -> None:
    # A5
    before = a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    entry = scheduler_json("trigger", "sums")
    run = Run.objects.get()
    assert entry["id"] == str(run.id)
    assert (run.input, run.trigger, run.schedule_name) == ({"a": 1, "b": 2}, "manual", "sums")
    assert "(shell)" in run.meta["by"]
    after = Schedule.objects.get()
    assert (after.next_run_at, after.last_slot) == (before.next_run_at, before.last_slot)


def test_a_repeated_trigger_with_the_same_key_is_one_run() -> None:
    # A5
    a_schedule("sums")
    first, again = (scheduler_json("trigger", "sums", "--key", "k1")["id"] for _ in range(2))
    assert first == again
    assert Run.objects.count() == 1


def test_waiting_without_a_worker_ends_in_time_and_says_so() -> None:
    # A5, B7
    a_schedule("sums")
    printed, message = failing("trigger", "sums", "--wait", "--timeout", "0.1")
    assert "is still submitted after 0.1 s" in message
    assert message.endswith("No worker is alive: start `manage.py runscheduler`.")
    assert "Run " in printed


def test_waiting_for_a_queue_that_nobody_serves_says_so() -> None:
    # A5, B7
    a_schedule("sums")
    a_node("mails", queues=["mail"])
    waiting = ("trigger", "sums", "--wait", "--timeout", "0.1")
    message = failing(*waiting)[1]
    assert message.endswith("No worker serves its queue 'default': start one that does.")
    a_node("everything")
    assert failing(*waiting)[1].endswith("look at it in the admin.")


def test_a_trigger_of_an_unknown_job_is_refused_and_stores_nothing() -> None:
    # A5, A6
    schedule = a_schedule("sums")
    Schedule.objects.filter(pk=schedule.pk).update(job="no.such.job")
    assert "no.such.job" in failing("trigger", "sums")[1]
    assert not Run.objects.exists()


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    # D3
    a_schedule("invoices-daily")
    assert "Did you mean 'invoices-daily'?" in failing("trigger", "invoice-dayly")[1]


def test_a_name_unlike_any_other_is_answered_with_where_to_look() -> None:
    # D3
    a_schedule("invoices-daily")
    assert "scheduler list" in failing("preview", "zzz")[1]


def test_a_name_differs_by_case_on_every_database() -> None:
    # D3
    a_schedule("Nightly")
    assert "Did you mean 'Nightly'?" in failing("resume", "nightly")[1]


def test_pause_keeps_note_time_and_person_and_resume_forgets_them() -> None:
    # A17
    a_schedule("daily")
    until = (clock.now() + HOUR).replace(microsecond=0)
    assert scheduler_json("pause", "daily", "--note", "why", "--until", until.isoformat()) == {
        "schedule": "daily",
        "paused": True,
        "until": until.isoformat().replace("+00:00", "Z"),
    }
    paused = Schedule.objects.get()
    assert (paused.is_paused, paused.pause_note, paused.paused_until) == (True, "why", until)
    assert "(shell)" in paused.paused_by
    resumed = scheduler_json("resume", "daily")
    assert (resumed["paused"], resumed["was_paused"]) == (False, True)
    assert not Schedule.objects.get().is_paused


@override_settings(TIME_ZONE="Europe/Berlin")
def test_a_time_without_a_zone_is_meant_in_the_zone_of_the_project() -> None:
    # A17
    a_schedule("daily")
    scheduler("pause", "daily", "--until", "2099-01-01T08:00")
    until = Schedule.objects.get().paused_until
    assert until == dt.datetime(2099, 1, 1, 7, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "until", ["tomorrow", "2026-13-01", "", "9" * 40, "9999-12-31", "0001-01-01"]
)
def test_what_is_no_time_is_refused_with_an_example(until: str) -> None:
    # D3
    a_schedule("daily")
    assert "is not a time; write it like" in failing("pause", "daily", f"--until={until}")[1]
    assert not Schedule.objects.get().is_paused


def test_a_pause_that_would_be_over_already_is_refused() -> None:
    # A17
    a_schedule("daily")
    assert "has passed" in failing("pause", "daily", "--until", "2001-01-01")[1]


def test_resuming_what_was_not_paused_says_so() -> None:
    # A17
    a_schedule("daily")
    assert "was not paused" in scheduler("resume", "daily")


def a_past() -> tuple[str, str]:
    """A range of whole hours that holds two hourly slots."""
    end = clock.now().replace(minute=30, second=0, microsecond=0) - 5 * HOUR
    return (end - 2 * HOUR).isoformat(), end.isoformat()


def an_hourly_schedule() -> Schedule:
    start = clock.now().replace(minute=0, second=0, microsecond=0) - 48 * HOUR
    return a_schedule("hourly", rule=every(hours=1, start=start))


def test_a_dry_backfill_says_what_it_would_do_and_does_nothing() -> None:
    # A17
    an_hourly_schedule()
    found = scheduler_json("backfill", "hourly", *a_past(), "--dry-run")
    assert (found["dry_run"], found["submitted"]) == (True, 2)
    assert [one["run"] for one in found["slots"]] == [None, None]
    assert not Run.objects.exists()


def test_a_backfill_fills_each_slot_once() -> None:
    # A17, A7
    an_hourly_schedule()
    past = a_past()
    found = scheduler_json("backfill", "hourly", *past)
    assert found["submitted"] == 2
    assert scheduler_json("backfill", "hourly", *past)["submitted"] == 0
    runs = Run.objects.filter(trigger="backfill")
    assert {str(run.id) for run in runs} == {one["run"] for one in found["slots"]}


def test_a_backfill_from_end_to_start_is_refused() -> None:
    # A17
    an_hourly_schedule()
    start, end = a_past()
    assert "the end is before the start" in failing("backfill", "hourly", end, start)[1]


def test_a_backfill_of_what_is_no_range_is_refused() -> None:
    # A17
    an_hourly_schedule()
    assert "FROM: 'monday' is not a time" in failing("backfill", "hourly", "monday", "friday")[1]


def test_a_row_with_control_characters_stays_one_line() -> None:
    # security 21
    schedule = a_schedule("plain")
    Schedule.objects.filter(pk=schedule.pk).update(
        name="evil\r\nsecond line\x1b[31m", error="first\x1b[2Jx"
    )
    text = scheduler("list")
    assert len(text.splitlines()) == 2
    assert "\x1b" not in text
    assert "evil\\r\\nsecond line\\x1b[31m" in text


def test_a_name_with_control_characters_in_an_error_stays_one_line() -> None:
    # security 21
    message = failing("trigger", "a\nb\x1b[31m")[1]
    assert "\x1b" not in message
