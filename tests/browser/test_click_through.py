"""What the product promises, clicked through from the login on, with script and without."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from sync_scheduler import clock
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.timing.rules import cron
from tests.browser.conftest import Visitor, visit
from tests.browser.test_screens import url
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def scripts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def person(chromium: Browser, live_server: LiveServer, scripts: bool) -> Iterator[Visitor]:
    someone = visit(chromium, live_server, scripts=scripts)
    yield someone
    someone.page.context.close()


def wait_for_verdict(person: Visitor, scripts: bool, text: str) -> None:
    """With script the page follows by itself; without, the person presses Refresh."""
    verdict = person.page.locator(".ss-verdict", has_text=text)
    deadline = clock.monotonic() + 60
    while not scripts and not verdict.count() and clock.monotonic() < deadline:
        person.click("[data-refresh-link]")
    expect(verdict).to_be_visible()


def test_a_run_is_triggered_and_followed_to_its_end(
    person: Visitor, scripts: bool, scheduler: subprocess.Popen[bytes]
) -> None:
    # D1, A5, B12
    rows.schedule("sum", rule=cron("0 2 * * *", tz="UTC"))
    person.open(url("schedule")).click("text=sum >> nth=0").click("text=Trigger now…")
    person.page.fill("#id_reason", "month end")
    person.click("input[value='Trigger now']")
    wait_for_verdict(person, scripts, "Completed")
    assert "month end" in person.text()
    assert Run.objects.get().result == 3


def test_a_schedule_is_paused_and_resumed(person: Visitor) -> None:
    # A17
    schedule = rows.schedule("parcels", rule=cron("0 2 * * *", tz="Europe/Berlin"))
    person.open(url("schedule")).click("text=parcels >> nth=0").click("text=Pause…")
    person.page.fill("#id_note", "carrier maintenance")
    person.page.check("input[name=meanwhile][value=catch_up]")
    person.click("button:has-text('Pause until Mon')")
    assert "carrier maintenance" in person.page.inner_text(".ss-verdict")
    schedule.refresh_from_db()
    assert schedule.holds_slots_back
    person.click("text=Resume…").click("input[value='Resume now']")
    assert "Paused" not in person.page.inner_text(".ss-verdict")
    schedule.refresh_from_db()
    assert schedule.paused_at is None


def test_a_schedule_is_edited_with_a_preview(person: Visitor) -> None:
    # A13, D1
    rows.schedule("nightly", rule=cron("0 1 * * *", tz="Europe/Berlin"))
    person.open(url("schedule")).click("text=nightly >> nth=0").click("text=Edit…")
    person.page.fill("#id_expression", "30 2 * * *")
    person.click("input[value=Check]")
    preview = person.page.inner_text("#ss-preview")
    assert "02:30 does not exist in Europe/Berlin, runs once at 03:00 CEST" in preview
    assert "Next run: was" in preview
    person.click("input[value=Save]")
    assert "Every day at 02:30" in person.text()
    assert Schedule.objects.get().expression == "30 2 * * *"


def test_an_edit_that_somebody_overtook_shows_both_versions(person: Visitor) -> None:
    # A3, D1
    schedule = rows.schedule("nightly", rule=cron("0 1 * * *", tz="UTC"))
    person.open(url("schedule", "edit", schedule.id))
    person.page.fill("#id_expression", "0 5 * * *")
    schedule.expression = "0 7 * * *"
    schedule.save()
    person.click("input[value=Save]")
    conflict = person.page.inner_text("[role=alert]")
    assert "Nothing was saved" in conflict
    assert "0 7 * * *" in conflict
    assert person.page.input_value("#id_expression") == "0 5 * * *"
    assert Schedule.objects.get().expression == "0 7 * * *"


def test_a_gap_is_filled(person: Visitor) -> None:
    # A17
    schedule = rows.schedule("hourly", rule=cron("0 * * * *", tz="UTC"))
    end = clock.now().replace(minute=30, second=0, microsecond=0) - rows.HOUR
    person.open(url("schedule", "change", schedule.id)).click("text=Fill gap…")
    person.page.fill("#id_start", f"{end - dt.timedelta(hours=4):%Y-%m-%dT%H:%M}")
    person.page.fill("#id_end", f"{end:%Y-%m-%dT%H:%M}")
    person.click("input[value=Check]")
    assert "4 runs would be submitted" in person.text()
    person.click("input[value='Fill 4']")
    assert "4 runs were submitted" in person.page.inner_text(".messagelist")
    assert Run.objects.filter(trigger=Trigger.BACKFILL).count() == 4


def test_failed_runs_of_a_filter_are_retried_and_followed_to_their_end(
    person: Visitor, scripts: bool, scheduler: subprocess.Popen[bytes]
) -> None:
    # D1: the page says how far the batch has come
    schedule = rows.schedule("sums", overlap="concurrent")
    for number in range(3):
        rows.failed(schedule, error=f"GatewayError: {number}")
    person.open(url("run")).click("nav[aria-label=State] >> text=failed")
    person.click("text=Retry all 3 that match…").click("input[value='Retry 3']")
    wait_for_verdict(person, scripts, "completed 3")
    assert Run.objects.filter(trigger=Trigger.RETRY, status=State.COMPLETED).count() == 3
