"""What people do in the admin: trigger, pause, resume, cancel, retry, discard, edit, fill."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from sync_scheduler import clock, job, signals
from sync_scheduler.admin import run_export
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import DeadLetter, Run, Schedule
from sync_scheduler.models.schedule import RULE_FIELDS
from sync_scheduler.timing.rules import Rule, cron, every, once
from tests.integration.admin import rows
from tests.integration.admin.conftest import Login
from tests.integration.dispatch.leading import lead

pytestmark = pytest.mark.django_db


def url(model: str, name: str, *args: object) -> str:
    return reverse(f"admin:sync_scheduler_{model}_{name}", args=args)


def form_of(client: Client, address: str) -> dict[str, Any]:
    """What a person would send without changing anything."""
    response = client.get(address)
    assert response.status_code == 200
    form = response.context["form"]
    values = {field.html_name: field.value() for field in form if not field.field.disabled}
    return {name: value for name, value in values.items() if value not in (None, False)}


def logged() -> list[str]:
    return [entry.change_message for entry in LogEntry.objects.order_by("id")]


def test_trigger_now_makes_a_run_with_the_reason_and_leads_to_it(browser: Client) -> None:
    # D1, A5
    schedule = rows.schedule()
    before = schedule.next_run_at
    address = url("schedule", "trigger", schedule.id)
    response = browser.post(address, {**form_of(browser, address), "reason": "month end"})
    run = Run.objects.get()
    assert response.headers["Location"] == url("run", "change", run.id)
    assert (run.trigger, run.schedule_id, run.input) == (
        Trigger.MANUAL,
        schedule.id,
        {"a": 1, "b": 2},
    )
    assert run.meta == {"by": "ops", "why": "month end"}
    schedule.refresh_from_db()
    assert schedule.next_run_at == before
    page = browser.get(response.headers["Location"]).content.decode()
    assert f'href="{url("run", "change", run.id)}">run {run.short_id}</a>' in page
    assert logged() == [f"Triggered run {run.id}: month end"]


def test_a_double_click_on_trigger_now_makes_one_run(browser: Client) -> None:
    # D1, B5
    address = url("schedule", "trigger", rows.schedule().id)
    form = {**form_of(browser, address), "reason": "twice"}
    first, second = browser.post(address, form), browser.post(address, form)
    assert Run.objects.count() == 1
    assert first.headers["Location"] == second.headers["Location"]


def test_trigger_now_checks_the_input_by_the_signature(browser: Client) -> None:
    # B3
    address = url("schedule", "trigger", rows.schedule().id)
    form = {**form_of(browser, address), "reason": "try", "input_a": "many"}
    response = browser.post(address, form)
    assert response.status_code == 200
    assert "must be a whole number" in response.content.decode()
    assert not Run.objects.exists()
    browser.post(address, {**form, "input_a": "41"})
    assert Run.objects.get().input == {"a": 41, "b": 2}


def test_trigger_now_needs_a_reason(browser: Client) -> None:
    # D1
    address = url("schedule", "trigger", rows.schedule().id)
    assert browser.post(address, form_of(browser, address)).status_code == 200
    assert not Run.objects.exists()


def test_a_triggered_run_may_be_let_run_beside_the_active_one(browser: Client) -> None:
    # A11
    schedule = rows.schedule()
    address = url("schedule", "trigger", schedule.id)
    for overlap, guard in (("wait", schedule.id), ("beside", None)):
        browser.post(address, {**form_of(browser, address), "reason": overlap, "overlap": overlap})
        assert Run.objects.order_by("-id")[0].guard == guard


def test_pause_takes_a_note_and_an_end_and_shows_both(browser: Client) -> None:
    # A17
    schedule = rows.schedule()
    address = url("schedule", "pause", schedule.id)
    response = browser.post(address, {"note": "carrier maintenance", "choice": "monday"})
    schedule.refresh_from_db()
    assert response.status_code == 302
    assert schedule.paused_until is not None
    local = schedule.paused_until.astimezone(dt.timezone(dt.timedelta()))
    assert local.weekday() == 0
    assert (schedule.pause_note, schedule.paused_by) == ("carrier maintenance", "ops")
    page = browser.get(url("schedule", "change", schedule.id)).content.decode()
    assert "carrier maintenance" in page
    assert "by ops" in page
    assert logged()[0].startswith("Paused until Mon ")


def test_a_page_of_saturday_pauses_until_monday_on_sunday_too(browser: Client) -> None:
    # A17: on a Sunday the button is not shown beside the one that says the same
    schedule = rows.schedule()
    now = clock.now()
    sunday = (now + dt.timedelta(days=6 - now.weekday())).replace(hour=12)
    with clock.shifted(sunday - now):
        address = url("schedule", "pause", schedule.id)
        page = browser.get(address).content.decode()
        assert (page.count('value="tomorrow"'), page.count('value="monday"')) == (1, 0)
        browser.post(address, {"note": "x", "choice": "monday"})
    schedule.refresh_from_db()
    assert schedule.paused_until is not None
    assert schedule.paused_until.date() == sunday.date() + dt.timedelta(days=1)


def test_pause_asks_what_becomes_of_the_slots_meanwhile(browser: Client) -> None:
    # A17
    schedule = rows.schedule(rule=cron("* * * * *", tz="UTC"))
    address = url("schedule", "pause", schedule.id)
    browser.post(address, {**form_of(browser, address), "note": "x", "choice": "open"})
    assert not Schedule.objects.get().holds_slots_back
    browser.post(address, {"note": "x", "choice": "monday", "meanwhile": "catch_up"})
    assert Schedule.objects.get().holds_slots_back
    Schedule.objects.filter(id=schedule.id).update(
        next_run_at=clock.now().replace(second=0, microsecond=0) - dt.timedelta(minutes=3)
    )
    page = browser.get(url("schedule", "change", schedule.id)).content.decode()
    assert "then the newest slot that passed is run" in page
    assert "Held back by the pause" in page
    asked = browser.get(url("schedule", "resume", schedule.id)).content.decode()
    assert "The newest slot that passed meanwhile is run now, once" in asked


def test_resume_after_a_pause_that_is_caught_up_with_starts_one_run(browser: Client) -> None:
    # A17: a resume never fires a burst
    schedule = rows.schedule(rule=cron("* * * * *", tz="UTC"))
    data = {"note": "x", "choice": "open", "meanwhile": "catch_up"}
    browser.post(url("schedule", "pause", schedule.id), data)
    first = clock.now().replace(second=0, microsecond=0) - dt.timedelta(hours=2)
    Schedule.objects.filter(id=schedule.id).update(next_run_at=first, last_slot=None)
    browser.post(url("schedule", "resume", schedule.id))
    schedule.refresh_from_db()
    assert not schedule.is_paused
    tick(lead(), clock.now())
    (run,) = Run.objects.filter(status=State.SUBMITTED)
    assert run.slot is not None
    assert clock.now() - run.slot < dt.timedelta(minutes=2)
    schedule.refresh_from_db()
    assert (schedule.paused_at, schedule.retry_dispatch_at) == (None, None)
    assert browser.get(url("schedule", "change", schedule.id)).status_code == 200


def test_pause_without_a_note_is_refused(browser: Client) -> None:
    # A17
    schedule = rows.schedule()
    browser.post(url("schedule", "pause", schedule.id), {"note": " ", "choice": "open"})
    schedule.refresh_from_db()
    assert not schedule.is_paused


def test_pause_until_a_date_is_on_the_clock_of_the_schedule(browser: Client) -> None:
    # A17
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="America/New_York"))
    data = {"note": "x", "choice": "date", "until": "2099-07-01T08:00"}
    browser.post(url("schedule", "pause", schedule.id), data)
    schedule.refresh_from_db()
    assert schedule.paused_until == dt.datetime(2099, 7, 1, 12, tzinfo=dt.UTC)


def test_pause_until_a_time_that_the_projects_own_clock_jumps_over(browser: Client) -> None:
    # A17
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="UTC"))
    data = {"note": "x", "choice": "date", "until": "2099-03-29T02:30"}
    with timezone.override("Europe/Berlin"):
        browser.post(url("schedule", "pause", schedule.id), data)
    schedule.refresh_from_db()
    assert schedule.paused_until == dt.datetime(2099, 3, 29, 2, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("at", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_time_that_not_every_clock_can_show_is_refused_by_every_form(
    browser: Client, settings: Any, at: str, zone: str
) -> None:
    # A12
    settings.SYNC_SCHEDULER = {"ADMIN_JOBS": ["*"]}
    schedule = rows.schedule(rule=cron("0 2 * * *", tz=zone))
    own = {"name": "new-one", "timezone": zone}
    forms: list[tuple[str, dict[str, Any]]] = [
        (url("schedule", "add"), {**own, "start_at": at}),
        (url("schedule", "add"), {**own, "end_at": at}),
        (url("schedule", "add"), {**own, "kind": "once", "at": at}),
        (url("schedule", "pause", schedule.id), {"note": "x", "choice": "date", "until": at}),
        (url("schedule", "backfill", schedule.id), {"start": at}),
        (url("schedule", "backfill", schedule.id), {"end": at}),
    ]
    new = new_schedule(browser, "tests.noop")
    for address, values in forms:
        filled = new if "name" in values else form_of(browser, address)
        page = browser.post(address, {**filled, **values}).content.decode()
        assert "Write a year from 2 to 9998." in page
    assert list(Schedule.objects.all()) == [schedule]


@pytest.mark.parametrize("until", ["", "2001-01-01T08:00"])
def test_pause_until_no_date_or_a_past_one_is_refused(browser: Client, until: str) -> None:
    # A17
    schedule = rows.schedule()
    data = {"note": "x", "choice": "date", "until": until}
    assert browser.post(url("schedule", "pause", schedule.id), data).status_code == 200
    schedule.refresh_from_db()
    assert not schedule.is_paused


def test_resume_goes_on_with_a_future_slot(browser: Client) -> None:
    # A17
    schedule = rows.schedule()
    schedule.pause(note="x", by="ops")
    browser.post(url("schedule", "resume", schedule.id))
    schedule.refresh_from_db()
    assert not schedule.is_paused
    assert schedule.next_run_at is not None
    assert schedule.next_run_at > clock.now()
    assert logged() == ["Resumed"]


def test_cancel_ends_the_run_and_says_who_did_it(browser: Client) -> None:
    # D1, B8
    run = rows.run(None, State.SUBMITTED)
    browser.post(url("run", "cancel", run.id), {"reason": "wrong region"})
    run.refresh_from_db()
    assert (run.status, run.reason) == (State.CANCELLED, "wrong region")
    assert logged() == ["Cancelled: wrong region"]


def test_cancelling_an_ended_run_changes_nothing_and_says_so(browser: Client) -> None:
    # B8
    run = rows.run()
    response = browser.post(url("run", "cancel", run.id), {"reason": "late"}, follow=True)
    run.refresh_from_db()
    assert run.status == State.COMPLETED
    assert "had already ended" in response.content.decode()
    assert logged() == []


def test_retry_makes_a_linked_run_once_and_closes_the_letter(browser: Client) -> None:
    # D1
    run = rows.failed(rows.schedule())
    address = url("run", "retry", run.id)
    form = form_of(browser, address)
    browser.post(address, form)
    browser.post(address, form)
    again = Run.objects.exclude(id=run.id).get()
    assert (again.retry_of, again.trigger, again.input) == (run.id, Trigger.RETRY, run.input)
    letter = DeadLetter.objects.get()
    assert (letter.resolution, letter.resolved_by) == ("retried", "ops")


def test_a_completed_run_cannot_be_retried(browser: Client) -> None:
    # B2
    run = rows.run()
    address = url("run", "retry", run.id)
    response = browser.post(address, form_of(browser, address), follow=True)
    assert "only failed and cancelled runs can be retried" in response.content.decode()
    assert Run.objects.count() == 1


def test_a_run_can_be_run_again_with_another_input(browser: Client) -> None:
    # D1
    run = rows.failed()
    address = url("run", "replay", run.id)
    browser.post(address, {**form_of(browser, address), "reason": "fixed", "input_b": "9"})
    again = Run.objects.exclude(id=run.id).get()
    assert (again.input, again.retry_of) == ({"a": 1, "b": 9}, run.id)


def test_retry_all_retries_what_was_shown_and_follows_the_batch(browser: Client) -> None:
    # D1
    rows.leader()
    schedule = rows.schedule(overlap="concurrent")
    for number in range(40):
        rows.failed(schedule, error=f"GatewayError: {number}")
    page = browser.get(reverse("admin:sync_scheduler_dashboard_changelist") + "?range=1h")
    address = page.context["retry_all_url"]
    late = rows.failed(schedule, error="KeyError: 'late'", finished_at=clock.now())
    asked = browser.get(address)
    assert asked.context["button"] == "Retry 40"
    token = asked.context["form"]["token"].value()
    first = browser.post(address, {"token": token})
    second = browser.post(address, {"token": token})
    assert Run.objects.filter(trigger=Trigger.RETRY).count() == 40
    assert not Run.objects.filter(retry_of=late.id).exists()
    followed = browser.get(first.headers["Location"])
    assert followed.context["batch"]["all"] == 40
    assert second.headers["Location"] == url("deadletter", "changelist")


def test_retry_of_one_cause_leaves_the_others_open(browser: Client) -> None:
    # D1
    rows.failed(error="ValueError: 1")
    rows.failed(error="ValueError: 2")
    rows.failed(error="KeyError: 'a'")
    groups = browser.get(url("deadletter", "changelist")).context["groups"]
    address = groups[0]["retry_url"]
    browser.post(address, form_of(browser, address))
    left = DeadLetter.objects.filter(resolution="")
    assert [letter.error for letter in left] == ["KeyError: 'a'"]


def test_a_letter_whose_run_is_gone_stays_open_with_the_reason(browser: Client) -> None:
    # D1
    run = rows.failed()
    Run.objects.filter(id=run.id).delete()
    letter = DeadLetter.objects.get()
    DeadLetter.objects.filter(id=letter.id).update(run_id=None)
    address = url("deadletter", "retry")
    response = browser.post(address, form_of(browser, address), follow=True)
    assert "nothing left to retry" in response.content.decode()
    letter.refresh_from_db()
    assert letter.resolution == ""


def undispatched() -> tuple[Schedule, Run]:
    """A schedule one of whose slots could not be dispatched."""
    schedule = rows.schedule(rule=cron("0 * * * *", tz="UTC"))
    slot = clock.now().replace(minute=0, second=0, microsecond=0) - 3 * rows.HOUR
    run = rows.run(schedule, State.FAILED, slot=slot, reason="dispatch_failed")
    rows.letter(run, kind=DeadLetter.Kind.SLOT)
    return schedule, run


def test_retrying_the_letter_of_a_slot_fills_the_slot_once(browser: Client) -> None:
    # A8, D1
    _, run = undispatched()
    address = url("deadletter", "retry")
    for _ in range(2):
        browser.post(address, form_of(browser, address))
    filled = Run.objects.exclude(id=run.id).get()
    assert (filled.trigger, filled.slot) == (Trigger.BACKFILL, run.slot)
    assert DeadLetter.objects.get().resolution == "retried"


def test_a_slot_that_was_retried_as_a_run_has_no_open_letter(browser: Client) -> None:
    # A8, D1
    _, run = undispatched()
    run.retry(by="ann")
    letter = DeadLetter.objects.get()
    assert (letter.resolution, letter.resolved_by) == ("retried", "ann")
    address = url("deadletter", "retry")
    browser.post(address, form_of(browser, address))
    assert Run.objects.exclude(id=run.id).count() == 1


def test_the_letter_of_a_slot_that_the_rule_no_longer_has_stays_open(browser: Client) -> None:
    # A8, D1
    schedule, _ = undispatched()
    schedule.expression = "30 * * * *"
    schedule.save()
    address = url("deadletter", "retry")
    response = browser.post(address, form_of(browser, address), follow=True)
    assert "without this slot" in response.content.decode()
    assert DeadLetter.objects.get().resolution == ""


def test_discard_needs_a_reason_and_keeps_the_letter_readable(browser: Client) -> None:
    # D1
    rows.failed(error="ValueError: test data")
    address = url("deadletter", "discard")
    form = form_of(browser, address)
    browser.post(address, form)
    assert DeadLetter.objects.get().resolution == ""
    browser.post(address, {**form, "reason": "test order"})
    letter = DeadLetter.objects.get()
    assert (letter.resolution, letter.note) == ("discarded", "test order")
    page = browser.get(url("deadletter", "changelist") + "?show=closed").content.decode()
    assert "test order" in page


def test_check_shows_the_next_runs_and_clock_changes_and_saves_nothing(browser: Client) -> None:
    # A13, D1
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="Europe/Berlin"))
    address = url("schedule", "edit", schedule.id)
    form = {**form_of(browser, address), "expression": "30 2 * * *", "_check": "1"}
    page = browser.post(address, form).content.decode()
    assert "Every day at 02:30, Europe/Berlin" in page
    assert "02:30 does not exist in Europe/Berlin" in page
    assert re.search(r"Next run: was \w+ \d+ \w+ 0[23]:00 \w+, now ", page)
    schedule.refresh_from_db()
    assert schedule.expression == "0 2 * * *"


def test_an_edit_moves_the_next_run_and_says_what_was_changed(browser: Client) -> None:
    # A3
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="UTC"))
    address = url("schedule", "edit", schedule.id)
    response = browser.post(address, {**form_of(browser, address), "expression": "0 5 * * *"})
    assert response.status_code == 302
    schedule.refresh_from_db()
    assert schedule.next_run_at is not None
    assert schedule.next_run_at.hour == 5
    assert logged() == ["Changed expression"]


def test_an_edit_is_told_as_an_update_and_one_that_changes_nothing_is_not(
    browser: Client, django_capture_on_commit_callbacks: Any
) -> None:
    # A9
    told: list[tuple[str, bool, bool]] = []

    def receiver(name: str, created: bool, updated: bool, **_: object) -> None:
        told.append((name, created, updated))

    schedule = rows.schedule()
    address = url("schedule", "edit", schedule.id)
    signals.schedule_registered.connect(receiver)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            browser.post(address, form_of(browser, address))
        assert told == []
        with django_capture_on_commit_callbacks(execute=True):
            browser.post(address, {**form_of(browser, address), "overlap": "queue"})
    finally:
        signals.schedule_registered.disconnect(receiver)
    assert told == [(schedule.name, False, True)]


def test_saving_without_a_change_leaves_an_interval_where_it_was(browser: Client) -> None:
    # A3
    schedule = rows.schedule(rule=every(minutes=10))
    before = (schedule.next_run_at, schedule.anchor_at, schedule.version)
    address = url("schedule", "edit", schedule.id)
    browser.post(address, form_of(browser, address))
    schedule.refresh_from_db()
    assert (schedule.next_run_at, schedule.anchor_at, schedule.version) == before


def test_a_reminder_that_has_fired_does_not_fire_again_when_it_is_edited(browser: Client) -> None:
    # A3, A7
    at = clock.now().replace(microsecond=654321) - dt.timedelta(seconds=5)
    schedule = rows.schedule(rule=once(at))
    tick(lead(), clock.now())
    address = url("schedule", "edit", schedule.id)
    browser.post(address, {**form_of(browser, address), "overlap": "concurrent"})
    schedule.refresh_from_db()
    assert (schedule.overlap, schedule.recurrence.instant) == ("concurrent", at)
    assert schedule.next_run_at is None


SECOND_HALF_PAST_TWO = dt.datetime(2099, 10, 25, 1, 30, tzinfo=dt.UTC)
FINE = dt.datetime(2099, 1, 1, 8, 0, 7, 483_920, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "rule",
    [
        once(SECOND_HALF_PAST_TWO, tz="Europe/Berlin"),
        once(FINE),
        every(hours=1, start=FINE),
        every(seconds=30, start=FINE, start_at=FINE + dt.timedelta(days=1)),
        cron("@daily", start_at=SECOND_HALF_PAST_TWO, tz="Europe/Berlin"),
    ],
)
def test_an_edit_of_something_else_leaves_the_rule_exactly_as_it_was(
    browser: Client, rule: Rule
) -> None:
    # A3: the form shows whole seconds, and the same for both hours when the clock goes back
    schedule = rows.schedule(rule=rule)
    address = url("schedule", "edit", schedule.id)
    browser.post(address, {**form_of(browser, address), "overlap": "queue"})
    saved = Schedule.objects.get()
    assert saved.overlap == "queue"
    for name in ("next_run_at", *RULE_FIELDS):
        assert getattr(saved, name) == getattr(schedule, name), name


def test_a_new_end_does_not_move_the_slots_of_an_interval(browser: Client) -> None:
    # A3
    schedule = rows.schedule(rule=every(hours=1, tz="UTC"))
    anchor = clock.now().replace(microsecond=0) - dt.timedelta(minutes=25)
    Schedule.objects.update(anchor_at=anchor)
    address = url("schedule", "edit", schedule.id)
    filled = {**form_of(browser, address), "end_at": "2099-01-01T00:00"}
    page = browser.post(address, {**filled, "_check": "1"}).content.decode()
    following = anchor + dt.timedelta(hours=1)
    assert f"{following:%H:%M}" in page
    browser.post(address, filled)
    schedule.refresh_from_db()
    assert schedule.end_at == dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
    assert (schedule.anchor_at, schedule.next_run_at) == (anchor, following)


@pytest.mark.parametrize(
    "change", [{"kind": "once", "at": "2001-01-01T08:00"}, {"end_at": "2001-01-01T08:00"}]
)
def test_an_edit_after_which_it_would_never_fire_is_refused(
    browser: Client, change: dict[str, Any]
) -> None:
    # A12
    schedule = rows.schedule()
    address = url("schedule", "edit", schedule.id)
    page = browser.post(address, {**form_of(browser, address), **change}).content.decode()
    assert "would never fire: its last slot is in the past." in page
    saved = Schedule.objects.get()
    assert (saved.version, saved.rule, saved.next_run_at) == (
        schedule.version,
        schedule.rule,
        schedule.next_run_at,
    )


def test_what_has_run_for_the_last_time_can_still_be_edited(browser: Client) -> None:
    # A12
    past = clock.now() - dt.timedelta(hours=1)
    schedule = Schedule.objects.register(
        "old", job="tests.add", rule=once(past), input={"a": 1, "b": 2}
    ).schedule
    address = url("schedule", "edit", schedule.id)
    browser.post(address, {**form_of(browser, address), "overlap": "queue"})
    schedule.refresh_from_db()
    assert (schedule.overlap, schedule.next_run_at) == ("queue", None)


def test_an_edit_that_somebody_overtook_is_refused_and_shows_both(browser: Client) -> None:
    # A3
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="UTC"))
    address = url("schedule", "edit", schedule.id)
    form = {**form_of(browser, address), "expression": "0 5 * * *"}
    schedule.expression = "0 7 * * *"
    schedule.save()
    page = browser.post(address, form).content.decode()
    assert "Somebody else has changed this schedule" in page
    assert "0 7 * * *" in page
    assert "0 5 * * *" in page
    schedule.refresh_from_db()
    assert schedule.expression == "0 7 * * *"


def new_schedule(client: Client, job: str) -> dict[str, Any]:
    """A filled form for a schedule of this job, whether the page offers it or not."""
    return {
        **form_of(client, url("schedule", "add")),
        "name": "new-one",
        "job": job,
        "expression": "15 3 * * *",
        "overlap": "skip",
        "misfire": "skip",
    }


@pytest.mark.parametrize("pattern", ["*", "tests.*", "tests.noop"])
def test_a_schedule_can_be_added_and_a_taken_name_is_refused(
    browser: Client, settings: Any, pattern: str
) -> None:
    # A16, security 5
    settings.SYNC_SCHEDULER = {"ADMIN_JOBS": [pattern]}
    address = url("schedule", "add")
    form = new_schedule(browser, "tests.noop")
    browser.post(address, form)
    made = Schedule.objects.get(name="new-one")
    assert (made.source, made.job, made.expression) == ("admin", "tests.noop", "15 3 * * *")
    assert made.next_run_at is not None
    again = browser.post(address, form)
    assert "exists already" in again.content.decode()


def offered(client: Client, address: str) -> set[str]:
    return {name for name, _label in client.get(address).context["form"].fields["job"].choices}


def test_only_jobs_that_are_open_are_offered_for_new_schedules(
    browser: Client, settings: Any
) -> None:
    # security 5: without a word in the settings, those that the code schedules itself
    settings.SYNC_SCHEDULER = {}
    planned = job(name="tests.planned", schedule=cron("0 3 * * *"))(lambda: None)
    try:
        address = url("schedule", "add")
        assert planned.name in offered(browser, address)
        assert "tests.noop" not in offered(browser, address)
        assert "ADMIN_JOBS" in browser.get(address).content.decode()
        settings.SYNC_SCHEDULER = {"ADMIN_JOBS": ["tests.no*"]}
        assert {planned.name, "tests.noop"} <= offered(browser, address)
        assert "tests.add" not in offered(browser, address)
    finally:
        registry.remove("tests.planned")


def test_a_forged_form_cannot_schedule_a_job_that_is_not_open(
    browser: Client, settings: Any
) -> None:
    # security 5
    settings.SYNC_SCHEDULER = {}
    forged = new_schedule(browser, "tests.noop")
    response = browser.post(url("schedule", "add"), forged)
    assert "Select a valid choice. tests.noop is not one" in response.content.decode()
    assert not Schedule.objects.exists()


def test_an_edit_cannot_turn_a_schedule_to_a_job_that_is_not_open(
    browser: Client, settings: Any
) -> None:
    # security 5
    settings.SYNC_SCHEDULER = {}
    schedule = rows.schedule()
    address = url("schedule", "edit", schedule.id)
    assert offered(browser, address) & {"tests.add", "tests.noop"} == {"tests.add"}
    browser.post(address, {**form_of(browser, address), "job": "tests.noop", "input": "{}"})
    schedule.refresh_from_db()
    assert schedule.job == "tests.add"


def test_what_was_written_here_is_triggered_only_while_its_job_is_open(
    browser: Client, settings: Any
) -> None:
    # security 5: what code has scheduled may be run early all the same
    settings.SYNC_SCHEDULER = {"ADMIN_JOBS": ["tests.*"]}
    schedule = rows.schedule()
    address = url("schedule", "trigger", schedule.id)
    form = {**form_of(browser, address), "reason": "forged"}
    Schedule.objects.filter(id=schedule.id).update(source="admin")
    settings.SYNC_SCHEDULER = {}
    page = browser.post(address, form, follow=True).content.decode()
    assert "is not open in the admin" in page
    bulk = url("schedule", "bulk") + f"?do=trigger&id={schedule.id}"
    browser.post(bulk, {**form_of(browser, bulk), "note": "forged"})
    assert not Run.objects.exists()
    Schedule.objects.filter(id=schedule.id).update(source="api")
    browser.post(address, form)
    assert Run.objects.count() == 1


def test_the_rule_of_a_schedule_from_code_cannot_be_edited_but_its_policies_can(
    browser: Client,
) -> None:
    # A16
    schedule = rows.schedule(rule=cron("0 2 * * *", tz="UTC"))
    Schedule.objects.filter(id=schedule.id).update(source="code")
    address = url("schedule", "edit", schedule.id)
    form = {**form_of(browser, address), "expression": "0 5 * * *", "misfire": "catch_up_one"}
    browser.post(address, form)
    schedule.refresh_from_db()
    assert (schedule.expression, schedule.misfire) == ("0 2 * * *", "catch_up_one")
    page = browser.get(url("schedule", "change", schedule.id)).content.decode()
    assert "This row differs from the code" in page
    browser.post(url("schedule", "revert", schedule.id))
    schedule.refresh_from_db()
    assert schedule.misfire == "skip"


def test_backfill_shows_how_many_and_which_before_it_acts(browser: Client) -> None:
    # A17
    schedule = rows.schedule(rule=cron("0 * * * *", tz="UTC"))
    end = clock.now().replace(minute=30, second=0, microsecond=0) - rows.HOUR
    form = {
        "start": (end - 4 * rows.HOUR).strftime("%Y-%m-%dT%H:%M"),
        "end": end.strftime("%Y-%m-%dT%H:%M"),
    }
    address = url("schedule", "backfill", schedule.id)
    page = browser.post(address, {**form, "_check": "1"}).content.decode()
    assert "4 runs would be submitted" in page
    assert not Run.objects.exists()
    response = browser.post(address, form)
    assert Run.objects.filter(trigger=Trigger.BACKFILL).count() == 4
    listed = browser.get(response.headers["Location"])
    assert len(listed.context["rows"]) == 4
    browser.post(address, form)
    assert Run.objects.count() == 4


def test_several_schedules_are_paused_and_resumed_together(browser: Client) -> None:
    # D1, A17
    ids = [rows.schedule(f"s{number}").id for number in range(3)]
    address = url("schedule", "bulk") + f"?do=pause&id={ids[0]}&id={ids[1]}"
    assert "Pause 2 schedules" in browser.get(address).content.decode()
    browser.post(address, {**form_of(browser, address), "note": "deploy"})
    assert [s.is_paused for s in Schedule.objects.order_by("id")] == [True, True, False]
    address = url("schedule", "bulk") + f"?do=resume&id={ids[0]}&id={ids[1]}"
    browser.post(address, form_of(browser, address))
    assert not any(s.is_paused for s in Schedule.objects.all())


def test_a_removed_schedule_leaves_its_runs(browser: Client) -> None:
    # A10
    schedule = rows.schedule()
    run = rows.run(schedule, State.RUNNING)
    browser.post(url("schedule", "delete", schedule.id))
    assert not Schedule.objects.exists()
    run.refresh_from_db()
    assert run.status == State.RUNNING


def test_what_does_not_exist_is_not_found(browser: Client) -> None:
    # D1
    assert browser.get(url("run", "change", uuid.uuid4())).status_code == 404
    assert browser.get(url("run", "change", "x")).status_code == 404
    assert browser.get(url("schedule", "change", 4711)).status_code == 404
    assert browser.get(url("schedule", "trigger", 4711)).status_code == 404


# --- the list of runs as a file


def exported(client: Client, query: str = "") -> list[dict[str, str]]:
    response = client.get(url("run", "export") + query)
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment;")
    content = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    return list(csv.DictReader(io.StringIO(content, newline="")))


def test_the_list_of_runs_can_be_had_as_a_file_with_its_filter(browser: Client) -> None:
    # security 22, D1
    schedule = rows.schedule("invoices")
    failed = rows.failed(schedule, error="GatewayError: 502, from bank")
    rows.run(schedule, State.COMPLETED)
    assert len(exported(browser)) == 2
    (line,) = exported(browser, "?state=failed")
    assert line["id"] == str(failed.id)
    assert (line["schedule"], line["state"]) == ("invoices", "failed")
    assert line["cause"] == "GatewayError: 502, from bank"
    assert line["took_seconds"] == "1.000"
    page = browser.get(url("run", "changelist") + "?state=failed").content.decode()
    assert f'href="{url("run", "export")}?state=failed"' in page


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_file_is_a_formula(browser: Client, begin: str) -> None:
    # security 22
    text = f"{begin}HYPERLINK(1)"
    rows.run(None, State.FAILED, error=text, job=text, schedule_name=text, node=text, queue=text)
    (line,) = exported(browser)
    for name in ("job", "schedule", "node", "queue"):
        assert line[name] == f"'{text}", name
    assert not line["cause"].startswith(("=", "+", "-", "@", "\t", "\r"))


def test_the_file_of_runs_is_bounded_and_read_in_batches(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # security 22
    monkeypatch.setattr(run_export, "MOST", 7)
    monkeypatch.setattr(run_export, "_BATCH", 3)
    ids = [str(rows.run(None, State.COMPLETED).id) for _ in range(9)]
    assert [line["id"] for line in exported(browser)] == ids[::-1][:7]


def test_the_file_of_runs_needs_the_permission_and_hides_what_the_page_hides(
    login: Login,
) -> None:
    # security 11, 22
    job(name="tests.charge", sensitive=("card",))(lambda card: None)
    try:
        rows.run(
            None,
            State.FAILED,
            job="tests.charge",
            input={"card": "4111-canary"},
            error="ValueError: 4111-canary",
        )
        (line,) = exported(login("view_run"))
    finally:
        registry.remove("tests.charge")
    assert line["cause"].startswith("ValueError: ")
    assert "4111-canary" not in str(line)
    assert login("view_schedule").get(url("run", "export")).status_code == 403


def test_an_asgi_server_sends_the_file_of_runs(operator: User) -> None:
    # security 22
    run = rows.run(None, State.COMPLETED)

    async def ask() -> str:
        client = AsyncClient()
        await client.aforce_login(operator)
        response: Any = await client.get(url("run", "export"))
        return "".join([part.decode() async for part in response.streaming_content])

    assert str(run.id) in async_to_sync(ask)()


# --- every failed run that a filter matches


def retry_all_of(client: Client, query: str) -> str:
    address: str = client.get(url("run", "changelist") + query).context["retry_all"]["url"]
    return address


def test_all_failed_runs_that_match_are_retried_and_followed_together(browser: Client) -> None:
    # D1
    wanted = rows.schedule("gateway", overlap="concurrent")
    for number in range(12):
        rows.failed(wanted, error=f"GatewayError: {number}")
    rows.failed(rows.schedule("other"), error="KeyError: 'a'")
    rows.run(wanted, State.COMPLETED)
    query = f"?state=failed&schedule={wanted.id}"
    page = browser.get(url("run", "changelist") + query).content.decode()
    assert "Retry all 12 that match…" in page
    address = retry_all_of(browser, query)
    late = rows.failed(wanted, error="GatewayError: late")
    asked = browser.get(address)
    assert asked.context["button"] == "Retry 12"
    form = form_of(browser, address)
    first = browser.post(address, form)
    again = browser.post(address, form)
    assert Run.objects.filter(trigger=Trigger.RETRY).count() == 12
    assert not Run.objects.filter(retry_of=late.id).exists()
    assert browser.get(first.headers["Location"]).context["batch"]["all"] == 12
    assert again.headers["Location"] == url("run", "changelist")
    assert DeadLetter.objects.filter(resolution="retried").count() == 12


def test_runs_are_filtered_by_their_cause(browser: Client) -> None:
    # D1
    for error in ("GatewayError: 1", "GatewayError: 2", "KeyError: 'a'"):
        rows.failed(error=error)
    run = Run.objects.filter(error__contains="Gateway").first()
    assert run is not None
    address = browser.get(url("run", "change", run.id)).context["cause_url"]
    page = browser.get(address)
    assert {row.cause for row in page.context["rows"]} == {"GatewayError: 1", "GatewayError: 2"}
    assert "cause: GatewayError" in page.content.decode()
    button = browser.get(retry_all_of(browser, "?state=failed&cause=GatewayError"))
    assert button.context["button"] == "Retry 2"


def test_retrying_all_that_match_needs_the_permission(login: Login) -> None:
    # security 1, 28
    rows.failed()
    somebody = login("view_run")
    page = somebody.get(url("run", "changelist") + "?state=failed").content.decode()
    assert "needs retry_run" in page
    for answer in (somebody.get, somebody.post):
        assert answer(url("run", "retry_all") + "?state=failed").status_code == 403
    assert Run.objects.count() == 1


def test_a_failed_run_can_be_discarded_from_its_own_page(browser: Client) -> None:
    # D1
    run = rows.failed(error="ValueError: test data")
    other = rows.failed(error="ValueError: test data")
    actions = browser.get(url("run", "change", run.id)).context["actions"]
    address = next(one["url"] for one in actions if one["key"] == "discard")
    browser.post(address, {**form_of(browser, address), "reason": "test order"})
    assert DeadLetter.objects.get(run_id=run.id).resolution == "discarded"
    assert DeadLetter.objects.get(run_id=other.id).resolution == ""
    left = browser.get(url("run", "change", run.id)).context["actions"]
    assert "discard" not in {one["key"] for one in left}
