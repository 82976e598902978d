"""Every page answers, says what matters first, and never says None."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.test import Client
from django.urls import reverse

from sync_scheduler import clock, job
from sync_scheduler.jobs import registry
from sync_scheduler.lifecycle import Reason, State, Trigger
from sync_scheduler.models import Schedule
from sync_scheduler.timing.rules import cron, every
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db

LISTS = ("dashboard", "schedule", "run", "deadletter", "node", "joblist", "load")


def url(model: str, name: str = "changelist", *args: object) -> str:
    return reverse(f"admin:sync_scheduler_{model}_{name}", args=args)


def text_of(response: object) -> str:
    content: bytes = response.content  # type: ignore[attr-defined]
    html = re.sub(r"<(script|style|title)\b.*?</\1>", " ", content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.parametrize("model", LISTS)
def test_every_section_answers_on_an_empty_installation(browser: Client, model: str) -> None:
    # D1
    response = browser.get(url(model))
    assert response.status_code == 200
    assert "None" not in text_of(response)


@pytest.mark.parametrize("model", LISTS)
def test_every_section_answers_with_rows_of_every_kind(browser: Client, model: str) -> None:
    # D1
    schedule = rows.schedule()
    for status in State:
        rows.run(schedule, status)
        rows.run(None, status)
    rows.failed(schedule)
    rows.node()
    rows.node("node-2", silent=rows.HOUR)
    rows.leader()
    response = browser.get(url(model))
    assert response.status_code == 200
    assert "None" not in text_of(response)


def test_the_dashboard_is_the_first_entry_of_the_app(browser: Client) -> None:
    # D1
    page = browser.get(reverse("admin:index")).content.decode()
    entries = re.findall(r'href="/admin/sync_scheduler/(\w+)/"', page)
    assert entries[0] == "dashboard"
    assert {"schedule", "run", "node", "deadletter"} <= set(entries)


@pytest.mark.parametrize("status", list(State))
def test_a_run_in_any_state_has_its_page(browser: Client, status: State) -> None:
    # D1, B12
    run = rows.run(rows.schedule(), status)
    response = browser.get(url("run", "change", run.id))
    assert response.status_code == 200
    assert "None" not in text_of(response)


def test_a_failed_run_shows_verdict_and_error_before_everything_else(browser: Client) -> None:
    # D1
    run = rows.failed(rows.schedule(), error="GatewayError: 502 from bank")
    text = text_of(browser.get(url("run", "change", run.id)))
    assert text.index("Failed after") < text.index("GatewayError: 502 from bank")
    assert text.index("GatewayError: 502 from bank") < text.index("Traceback")
    assert text.index("GatewayError: 502 from bank") < text.index("Attempts")


def test_a_run_whose_node_was_lost_is_never_called_failed(browser: Client) -> None:
    # C1
    run = rows.run(None, State.SUBMITTED, attempt=1, reason=Reason.NODE_LOST)
    run.attempts.create(
        number=1,
        node="node-9",
        started_at=run.run_at,
        finished_at=run.run_at,
        outcome="lost",
    )
    text = text_of(browser.get(url("run", "change", run.id)))
    assert "Outcome unknown: node node-9 stopped reporting" in text


def test_a_skipped_slot_says_why(browser: Client) -> None:
    # A15
    schedule = rows.schedule(rule=every(minutes=10))
    slot = clock.now().replace(microsecond=0) - dt.timedelta(minutes=5)
    rows.run(schedule, State.SKIPPED, slot=slot, reason=Reason.OVERLAP)
    text = text_of(browser.get(url("schedule", "change", schedule.id)))
    assert "The previous run was still active." in text


def test_a_slot_that_nobody_dispatched_is_a_row_that_says_since_when_nobody_led(
    browser: Client,
) -> None:
    # A15
    rows.leader(expires_in=-2 * rows.HOUR)
    schedule = rows.schedule(rule=cron("*/10 * * * *", tz="UTC"))
    overdue = clock.now() - rows.HOUR
    Schedule.objects.filter(id=schedule.id).update(next_run_at=overdue, last_slot=None)
    text = text_of(browser.get(url("schedule", "change", schedule.id)))
    assert "Not dispatched so far. No node has led since" in text
    assert "missed" in text


def test_a_misfired_slot_names_from_when_to_when_nobody_led(browser: Client) -> None:
    # A15
    schedule = rows.schedule(rule=cron("*/10 * * * *", tz="UTC"))
    slot = clock.now().replace(second=0, microsecond=0)
    slot -= dt.timedelta(minutes=slot.minute % 10 + 10)
    meta = {
        "no_leader_from": (slot - 300 * rows.SECOND).isoformat(),
        "no_leader_to": (slot + 300 * rows.SECOND).isoformat(),
    }
    rows.run(schedule, State.SKIPPED, slot=slot, reason=Reason.MISFIRE, meta=meta)
    text = text_of(browser.get(url("schedule", "change", schedule.id)))
    assert re.search(r"Missed: nothing dispatched at that time.* No node led from .* to ", text)


def test_slots_that_were_dropped_together_are_explained_by_their_record(browser: Client) -> None:
    # A15
    schedule = rows.schedule(rule=cron("* * * * *", tz="UTC"))
    now = clock.now().replace(second=0, microsecond=0)
    first, last = now - 20 * 60 * rows.SECOND, now - 60 * rows.SECOND
    meta = {"from": first.isoformat(), "to": last.isoformat(), "count": 20}
    rows.run(schedule, State.SKIPPED, slot=last, reason=Reason.CATCH_UP_LIMIT, meta=meta)
    Schedule.objects.filter(id=schedule.id).update(next_run_at=now + 60 * rows.SECOND)
    text = text_of(browser.get(url("schedule", "change", schedule.id)))
    assert text.count("Missed, and older than the catch-up limit.") >= 20
    assert "Stands for 20 slots" in text


def test_the_schedule_page_tells_the_effect_of_the_next_clock_changes(browser: Client) -> None:
    # A13
    schedule = rows.schedule(rule=cron("30 2 * * *", tz="Europe/Berlin"))
    text = text_of(browser.get(url("schedule", "change", schedule.id)))
    assert re.search(r"02:30 does not exist in Europe/Berlin, runs once at 03:00 CEST", text)
    assert re.search(r"02:30 happens twice in Europe/Berlin", text)


def test_a_dead_dispatcher_is_a_banner_on_every_page(browser: Client) -> None:
    # C1
    rows.leader(expires_in=-rows.HOUR)
    for model in LISTS:
        assert "Nothing dispatches" in text_of(browser.get(url(model))), model


def test_all_well_is_said_only_when_something_dispatches_and_nothing_failed(
    browser: Client,
) -> None:
    # D1
    rows.leader()
    rows.node()
    rows.schedule("next-one", rule=every(minutes=1))
    assert "All well. Next: next-one" in text_of(browser.get(url("dashboard")))
    rows.failed()
    text = text_of(browser.get(url("dashboard")))
    assert "All well" not in text
    assert "1 run failed since" in text


def test_failures_with_one_cause_are_one_line(browser: Client) -> None:
    # D1
    rows.leader()
    schedule = rows.schedule()
    for number in range(28):
        rows.failed(schedule, error=f"GatewayError: order {number} was refused")
    rows.failed(schedule, error="KeyError: 'region'")
    text = text_of(browser.get(url("dashboard")))
    assert text.count("GatewayError: order # was refused") == 1
    assert "Retry 28…" in text
    assert "Retry all 29…" in text


def test_a_queue_that_nobody_serves_is_a_row(browser: Client) -> None:
    # D1
    rows.leader()
    rows.node(queues=["default"])
    rows.run(None, State.SUBMITTED, queue="imports")
    text = text_of(browser.get(url("node")))
    assert re.search(r"imports 1 .*no node serves it", text)


def test_an_unreadable_rule_or_unknown_job_keeps_its_row_and_page(browser: Client) -> None:
    # A6
    schedule = rows.schedule("odd")
    Schedule.objects.filter(id=schedule.id).update(
        job="gone.job", expression="61 * * * *", timezone="Mars/Olympus", next_run_at=None
    )
    assert "No job named gone.job is registered here." in text_of(browser.get(url("schedule")))
    assert browser.get(url("schedule", "change", schedule.id)).status_code == 200
    assert browser.get(url("load")).status_code == 200
    assert browser.get(url("dashboard")).status_code == 200


def test_listing_jobs_runs_none_of_them(browser: Client) -> None:
    # D1; templates call what can be called, and a job can
    called = []
    job(name="tests.touchy")(lambda: called.append("here"))
    try:
        assert "tests.touchy" in text_of(browser.get(url("joblist")))
    finally:
        registry.remove("tests.touchy")
    assert called == []


def test_a_backfilled_slot_links_to_the_run_that_filled_it(browser: Client) -> None:
    # A17
    schedule = rows.schedule(rule=every(minutes=10))
    slot = clock.now().replace(microsecond=0) - dt.timedelta(minutes=30)
    rows.run(schedule, State.SKIPPED, slot=slot, reason=Reason.MISFIRE)
    fill = rows.run(schedule, State.COMPLETED, slot=slot, trigger=Trigger.BACKFILL)
    page = browser.get(url("schedule", "change", schedule.id)).content.decode()
    assert f'<a href="{url("run", "change", fill.id)}">filled later</a>' in page


def test_the_due_list_says_which_schedules_keep_failing(browser: Client) -> None:
    # D1
    rows.leader()
    failing = rows.schedule("failing", rule=every(minutes=5))
    mended = rows.schedule("mended", rule=every(minutes=5))
    for _ in range(7):
        rows.failed(failing)
        rows.failed(mended)
    rows.run(failing, State.SKIPPED, reason=Reason.OVERLAP)
    rows.run(mended, State.COMPLETED)
    due = {row["name"]: row["failed"] for row in browser.get(url("dashboard")).context["due"]}
    assert due == {"failing": "last 5 failed", "mended": ""}


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ("release-1", "release-2", "the code has changed since: release-1, now release-2"),
        ("release-1", "release-1", "the code is the same: release-1"),
        ("0.1.0", "0.1.0", "every node was restarted since"),
    ],
)
def test_a_dead_letter_says_whether_the_code_has_changed_since(
    browser: Client, then: str, now: str, told: str
) -> None:
    # D1
    rows.failed(node="old")
    rows.node("old", version=then, stopped_at=clock.now())
    rows.node("new", version=now, started_at=clock.now())
    assert told in text_of(browser.get(url("deadletter")))


def test_a_dead_letter_says_that_no_node_was_restarted_since(browser: Client) -> None:
    # D1
    rows.failed(node="same")
    rows.node("same")
    assert "nodes were not restarted since" in text_of(browser.get(url("deadletter")))


def test_a_stuck_run_says_what_will_happen_and_when(browser: Client) -> None:
    # C1, D1
    rows.leader()
    rows.node("node-1", silent=dt.timedelta(seconds=50))
    schedule = rows.schedule()
    lost = rows.run(schedule, State.RUNNING, lease_seconds=300)
    text = text_of(browser.get(url("dashboard")))
    assert re.search(r"stuck: Its node node-1 is silent for 50 s; its lease ends \w+ \d", text)
    assert "1 run stuck" in text
    assert "its lease ends" in text_of(browser.get(url("run", "change", lost.id)))


def test_a_run_that_takes_far_longer_than_usual_is_stuck(browser: Client) -> None:
    # D1
    rows.leader()
    rows.node()
    for _ in range(3):
        rows.run()
    rows.run(None, State.RUNNING, started_at=clock.now() - rows.HOUR)
    assert "stuck: usually 1.0 s" in text_of(browser.get(url("dashboard")))


@pytest.mark.parametrize("model", ["dashboard", "joblist", "load"])
def test_a_page_without_rows_has_no_other_pages(browser: Client, model: str) -> None:
    # D1: there is no table that could be asked for them
    assert browser.get(url(model, "change", 1)).headers["Location"] == url(model)
    assert browser.get(url(model, "history", 1)).status_code in {302, 404}
    assert browser.post(url(model, "delete", 1)).status_code in {302, 403, 404}
    assert browser.get(url(model, "add")).status_code == 403


def test_a_run_says_who_dispatched_it(browser: Client) -> None:
    # B12, A2
    rows.leader(holder="node-7", epoch=3)
    run = rows.run(rows.schedule(), slot=clock.now(), epoch=3)
    assert "dispatched by node-7" in text_of(browser.get(url("run", "change", run.id)))
