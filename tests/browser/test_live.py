"""Pages follow what happens: at once over the stream, otherwise by asking every few seconds."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Request, Route, expect

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run
from sync_scheduler.timing.rules import cron, every
from tests.browser.conftest import Visitor
from tests.browser.test_screens import url
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db(transaction=True)

STREAM = "**/dashboard/events/**"


@pytest.fixture
def reads(visitor: Visitor) -> Iterator[list[str]]:
    """How often the page has read itself again."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("x-requested-with") == "fetch":
            found.append(request.url)

    visitor.page.on("request", note)
    yield found
    visitor.page.remove_listener("request", note)


def wait_until_live(visitor: Visitor) -> None:
    expect(visitor.page.locator("[data-live-word]")).to_be_visible()


def stop_the_clock(visitor: Visitor) -> None:
    """That of the page; a second ahead, since it goes on until the browser hears of this."""
    visitor.page.clock.pause_at(clock.now() + dt.timedelta(seconds=1))


def test_a_new_run_is_on_the_page_at_once(visitor: Visitor) -> None:
    # D1, B12: long before the next look of the clock
    visitor.page.clock.install()
    visitor.open(url("run"))
    wait_until_live(visitor)
    visitor.page.wait_for_function("document.getElementById('ss-live').dataset.connected")
    stop_the_clock(visitor)
    run = rows.run(rows.schedule("just-submitted"), State.SUBMITTED)
    # The page's own clock stands still but for this: only the stream can have told it. Ten seconds
    # of it, and as many of ours as a busy server may need.
    for _ in range(200):
        visitor.page.clock.run_for(50)
        if visitor.page.locator(f"a[href*='{run.id}']").count():
            break
        visitor.page.wait_for_timeout(100)
    else:
        pytest.fail("the run was not shown")
    assert "just-submitted" in visitor.text()


def test_many_changes_are_read_at_most_once_a_second(visitor: Visitor, reads: list[str]) -> None:
    # D1
    visitor.open(url("dashboard"))
    wait_until_live(visitor)
    visitor.page.clock.install()
    stop_the_clock(visitor)
    for _ in range(5):
        visitor.page.evaluate("document.dispatchEvent(new CustomEvent('ss:changed'))")
        visitor.page.clock.run_for(10)
    expect(visitor.page.locator("#ss-live")).to_be_visible()
    assert len(reads) <= 1


def test_the_stream_waits_for_a_ticked_row(visitor: Visitor, reads: list[str]) -> None:
    # D1
    rows.schedule("first", rule=every(minutes=1))
    visitor.open(url("schedule"))
    wait_until_live(visitor)
    visitor.page.check("input[name=id] >> nth=0")
    before = len(reads)
    rows.schedule("second", rule=every(minutes=2))
    with visitor.page.expect_event("console", lambda message: message.text == "changed"):
        visitor.page.evaluate(
            "document.addEventListener('ss:changed', () => console.log('changed'))"
        )
        rows.run(None, State.SUBMITTED)
    assert len(reads) == before
    visitor.page.uncheck("input[name=id] >> nth=0")
    visitor.page.locator("input[name=id] >> nth=0").blur()
    expect(visitor.page.locator("text=second")).to_be_visible()


@pytest.mark.parametrize("status", [429, 500])
def test_a_refused_stream_leaves_the_page_asking_every_few_seconds(
    visitor: Visitor, status: int
) -> None:
    # D1, security 23
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=status, body="")

    visitor.page.route(STREAM, refuse)
    visitor.page.clock.install()
    visitor.open(url("run"))
    visitor.page.wait_for_function("!document.getElementById('ss-live').dataset.connected")
    rows.run(rows.schedule("told-by-nobody"), State.SUBMITTED)
    visitor.page.clock.run_for(16_000)
    expect(visitor.page.locator("text=told-by-nobody").first).to_be_visible()
    assert len(asked) == 1
    assert not visitor.page.locator("[data-live-word]").is_visible()


def test_a_page_that_nobody_looks_at_lets_its_stream_go(visitor: Visitor) -> None:
    # security 23
    visitor.open(url("run"))
    wait_until_live(visitor)
    visitor.page.evaluate(
        """() => {
            Object.defineProperty(document, 'hidden', {value: true, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    expect(visitor.page.locator("[data-live-word]")).to_be_hidden()
    visitor.page.evaluate(
        """() => {
            Object.defineProperty(document, 'hidden', {value: false, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    wait_until_live(visitor)


def test_a_run_is_followed_to_its_end_and_then_left_alone(
    visitor: Visitor, scheduler: subprocess.Popen[bytes]
) -> None:
    # D1, B12
    schedule = rows.schedule("sum", rule=cron("0 2 * * *", tz="UTC"))
    page = visitor.open(url("schedule", "trigger", schedule.id)).page
    page.fill("#id_reason", "to see it")
    visitor.click("input[value='Trigger now']")
    expect(page.locator(".ss-verdict")).to_contain_text("Completed")
    assert page.get_attribute("#ss-live", "data-live") is None
    assert page.get_attribute("#ss-live", "data-connected") is None
    assert Run.objects.get().status == State.COMPLETED
