"""The eight questions of somebody on call, each answered in so many clicks from the admin index."""

from __future__ import annotations

import datetime as dt
import re
import subprocess

import pytest
from playwright.sync_api import expect

from sync_scheduler import clock
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Run, Schedule
from sync_scheduler.timing.rules import cron, every
from tests.browser.conftest import Visitor
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db(transaction=True)

NOW = ".model-dashboard a >> nth=0"
SCHEDULES = ".model-schedule a >> nth=0"


def test_what_failed_last_night_and_why(visitor: Visitor) -> None:
    # D1: one click
    rows.leader()
    schedule = rows.schedule("send-invoices")
    for number in range(28):
        rows.failed(schedule, error=f"GatewayError: order {number} was refused")
    visitor.open().click(NOW)
    assert visitor.clicks == 1
    text = visitor.text()
    assert "28 runs failed since 18:00" in text
    assert "GatewayError: order # was refused" in text
    assert "send-invoices" in text


def test_why_it_did_not_run_at_two(visitor: Visitor) -> None:
    # A15: two clicks, also when nothing was alive
    schedule = rows.schedule("report", rule=cron("0 * * * *", tz="UTC"))
    slot = clock.now().replace(minute=0, second=0, microsecond=0)
    meta = {
        "no_leader_from": (slot - dt.timedelta(minutes=20)).isoformat(),
        "no_leader_to": (slot + dt.timedelta(minutes=5)).isoformat(),
    }
    rows.run(schedule, State.SKIPPED, slot=slot, reason=Reason.MISFIRE, meta=meta)
    rows.leader()
    visitor.open().click(SCHEDULES).click("text=report >> nth=0")
    assert visitor.clicks == 2
    row = visitor.page.locator(".ss-ticktable tr", has_text="missed").first.inner_text()
    assert "No node led from" in row


def test_trigger_it_and_see_it_finish(visitor: Visitor, scheduler: subprocess.Popen[bytes]) -> None:
    # D1, A5: four clicks, the end is seen without a reload
    rows.schedule("sum", rule=cron("0 2 * * *", tz="UTC"))
    visitor.open().click(SCHEDULES).click("text=sum >> nth=0").click("text=Trigger now…")
    visitor.page.fill("#id_reason", "to see it")
    visitor.click("input[value='Trigger now']")
    assert visitor.clicks == 4
    expect(visitor.page.locator(".ss-verdict")).to_contain_text("Completed")
    assert "to see it" in visitor.text()
    assert Run.objects.get().status == State.COMPLETED


def test_pause_it_until_monday_with_a_note(visitor: Visitor) -> None:
    # A17: five clicks at most
    schedule = rows.schedule("parcels", rule=cron("0 2 * * *", tz="Europe/Berlin"))
    visitor.open().click(SCHEDULES).click("text=parcels >> nth=0").click("text=Pause…")
    visitor.page.fill("#id_note", "carrier maintenance")
    visitor.click("button:has-text('Pause until Mon')")
    assert visitor.clicks <= 5
    text = visitor.page.inner_text(".ss-verdict")
    assert re.search(r"Paused.*until Mon .* 08:00 .*by ops.*carrier maintenance", text)
    schedule.refresh_from_db()
    assert schedule.paused_until is not None


def test_what_is_due_in_the_next_hour(visitor: Visitor) -> None:
    # D1: one click, every occurrence counted
    rows.leader()
    rows.schedule("often", rule=every(minutes=5))
    rows.schedule("later", rule=every(hours=5))
    visitor.open().click(NOW)
    assert visitor.clicks == 1
    due = visitor.page.inner_text(".ss-due-table")
    assert re.search(r"often\s+\+ 1[01] more to", due)
    assert "later" not in due


def test_what_is_stuck_who_is_dead_and_who_dispatches(visitor: Visitor) -> None:
    # C1: one click
    rows.leader(holder="node-1")
    rows.node("node-1")
    rows.node("node-2", silent=dt.timedelta(minutes=40))
    rows.run(rows.schedule("import"), State.RUNNING, node="node-2")
    visitor.open().click(NOW)
    assert visitor.clicks == 1
    verdict = visitor.page.inner_text(".ss-verdict")
    assert "1 node silent 40 min" in verdict
    assert "1 run stuck" in verdict
    assert "dispatcher node-1" in visitor.text()


def test_retry_the_forty_failures_of_the_last_hour(visitor: Visitor) -> None:
    # D1: four clicks
    rows.leader()
    schedule = rows.schedule("gateway", overlap="concurrent")
    for number in range(40):
        rows.failed(schedule, error=f"GatewayError: {number}")
    visitor.open().click(NOW).click("text=last hour").click("text=Retry all 40…")
    visitor.click("input[value='Retry 40']")
    assert visitor.clicks == 4
    assert "Together retried: 40." in visitor.text()
    assert Run.objects.filter(trigger="retry").count() == 40


def test_change_its_time_and_be_sure_of_the_next_runs(visitor: Visitor) -> None:
    # A13, D1: six clicks at most, the clock changes are seen before saving
    schedule = rows.schedule("nightly", rule=cron("0 1 * * *", tz="Europe/Berlin"))
    visitor.open().click(SCHEDULES).click("text=nightly >> nth=0").click("text=Edit…")
    visitor.page.fill("#id_expression", "30 2 * * *")
    expect(visitor.page.locator("#ss-preview")).to_contain_text(
        "02:30 does not exist in Europe/Berlin, runs once at 03:00 CEST"
    )
    expect(visitor.page.locator("#ss-preview")).to_contain_text("Next run: was")
    visitor.click("input[value='Save']")
    assert visitor.clicks <= 6
    assert "Every day at 02:30" in visitor.text()
    assert Schedule.objects.get(id=schedule.id).expression == "30 2 * * *"
