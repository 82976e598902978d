"""The screens in a real browser: widths, the error on top, contrast, keys, and no script."""

from __future__ import annotations

import datetime as dt
import re
import subprocess

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, Request, expect
from pytest_django.live_server_helper import LiveServer

from sync_scheduler import clock
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Run, Schedule, Term
from sync_scheduler.timing.rules import cron, every
from tests.browser.conftest import DESKTOP, PHONE, Visitor, visit
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db(transaction=True)

LIST_MODELS = ("dashboard", "schedule", "run", "deadletter", "node", "joblist", "load")


def url(model: str, name: str = "changelist", *args: object) -> str:
    return reverse(f"admin:sync_scheduler_{model}_{name}", args=args)


def populate() -> list[str]:
    """Rows with long names and errors, and the addresses of every page."""
    rows.leader(holder="a-node-with-quite-a-long-name:12345:abcdef")
    rows.node("a-node-with-quite-a-long-name:12345:abcdef", version="0.1.0")
    rows.node("node-2", silent=rows.HOUR, version="0.0.9")
    long = "nightly-settlement-of-all-open-invoices-of-the-northern-region"
    schedule = rows.schedule(long, rule=every(minutes=10))
    rows.schedule("paused").pause(note="waits for the lawyers " * 5, by="ines")
    error = "GatewayError: " + "the_bank_refused_the_signature_" * 6
    slot = clock.now().replace(microsecond=0) - dt.timedelta(minutes=30)
    for status in State:
        rows.run(schedule, status, node="a-node-with-quite-a-long-name:12345:abcdef")
    rows.run(schedule, State.SKIPPED, slot=slot, reason=Reason.OVERLAP)
    run = rows.failed(schedule, error=error, traceback="x = " + "y" * 400)
    now = clock.now()
    run.attempts.create(
        number=2,
        node="a-node-with-quite-a-long-name:12345:abcdef",
        started_at=now,
        finished_at=now,
        outcome="retried",
        error="GatewayError: 401 Unauthorized: the signature was refused",
        retry_at=now,
    )
    Term.objects.create(
        epoch=0,
        holder="a-node-with-quite-a-long-name:12345:abcdef",
        started_at=now - 9 * rows.HOUR,
        ended_at=now - 8 * rows.HOUR,
        reason="its clock is +3.0 s off the database's",
    )
    rows.run(None, State.SUBMITTED, queue="a-queue-of-its-own-for-imports")
    return [
        *(url(model) for model in LIST_MODELS),
        url("run", "change", run.id),
        url("run", "retry", run.id),
        url("run", "replay", run.id),
        url("schedule", "change", schedule.id),
        url("schedule", "edit", schedule.id),
        url("schedule", "add"),
        url("schedule", "pause", schedule.id),
        url("schedule", "trigger", schedule.id),
        url("schedule", "backfill", schedule.id),
        url("deadletter", "retry"),
    ]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_scrolls_sideways(
    chromium: Browser, live_server: LiveServer, size: tuple[int, int]
) -> None:
    # D1
    addresses = populate()
    someone = visit(chromium, live_server, size)
    for address in addresses:
        page = someone.open(address).page
        assert _overflow(page) == [], address
    someone.page.context.close()


def _overflow(page: Page) -> list[str]:
    """What reaches beyond the page's own width, except inside what scrolls by itself."""
    script = """() => {
        const limit = document.querySelector('#content').getBoundingClientRect().right + 1;
        const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
        const beyond = [...document.querySelectorAll('#content *')].filter(
            e => e.getBoundingClientRect().right > limit
                && !e.closest('.ss-scroll, pre, svg, .visually-hidden, thead'));
        return beyond.map(e => e.tagName + '.' + e.className).concat(wide ? ['document'] : []);
    }"""
    found: list[str] = page.evaluate(script)
    return found[:5]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_error_of_a_failed_run_is_in_the_first_fold(
    chromium: Browser, live_server: LiveServer, size: tuple[int, int]
) -> None:
    # D1
    run = rows.failed(rows.schedule(), error="GatewayError: 401")
    someone = visit(chromium, live_server, size).open(url("run", "change", run.id))
    box = someone.page.locator(".ss-error").bounding_box()
    assert box is not None
    # On a phone Django's own header and our navigation are higher.
    assert box["y"] < (250 if size == DESKTOP else 400)
    someone.page.context.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_state_can_be_read_in_both_themes(
    chromium: Browser, live_server: LiveServer, dark: bool
) -> None:
    # D1
    populate()
    someone = visit(chromium, live_server, dark=dark).open(url("run"))
    found = someone.page.evaluate(_CONTRAST)
    assert {row["tone"] for row in found} >= {"ok", "failed", "running", "quiet", "due"}
    for row in found:
        assert row["ratio"] >= 4.5, row
    someone.page.context.close()


_CONTRAST = """() => {
    const number = text => text.match(/[\\d.]+/g).map(Number);
    const light = text => {
        const [r, g, b] = number(text).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = e => {
        for (; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (!/rgba\\(.*, 0\\)/.test(colour) && colour !== 'transparent') return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    return [...document.querySelectorAll('.ss-state')].map(e => {
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
        return {tone: e.className.match(/ss-(?!state)(\\w+)/)[1], ratio: (a + 0.05) / (b + 0.05)};
    });
}"""


def test_rows_names_and_headings_can_be_found_by_a_screen_reader(visitor: Visitor) -> None:
    # D1
    for address in populate():
        page = visitor.open(address).page
        assert page.locator("h1:visible, h1.visually-hidden").count() >= 1, address
        assert page.locator("#ss-live table:not(:has(th[scope=col]))").count() == 0, address
        nameless = page.evaluate(
            """() => [...document.querySelectorAll(
                    '#content input:not([type=hidden]):not([type=submit]), #content select,'
                    + ' #content textarea, #content svg[role=img], #content button, #content a')]
                .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')
                    && !e.textContent.trim() && !e.title && !e.querySelector('[aria-label]'))
                .map(e => e.outerHTML.slice(0, 120))"""
        )
        assert nameless == [], address


def test_the_keys_lead_through_the_screens(visitor: Visitor) -> None:
    # D1
    first = rows.schedule("aaa", rule=every(minutes=1))
    rows.schedule("bbb", rule=every(minutes=2))
    page = visitor.open(url("dashboard")).page
    page.keyboard.type("gs")
    page.wait_for_url(f"**{url('schedule')}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{url('schedule', 'change', first.id)}")
    page.keyboard.press("p")
    page.wait_for_url(f"**{url('schedule', 'pause', first.id)}")
    page.locator("#id_note").press_sequentially("gs?")
    assert page.input_value("#id_note") == "gs?"
    visitor.open(url("schedule"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "ss-q"
    page.locator("#ss-q").blur()
    page.keyboard.press("?")
    expect(page.locator("dialog.ss-keys")).to_be_visible()
    page.click("text=Switch keys off")
    page.keyboard.type("gn")
    expect(page).to_have_url(re.compile(f"{url('schedule')}$"))


def test_a_page_refreshes_by_itself_but_not_under_a_ticked_row(visitor: Visitor) -> None:
    # D1
    rows.schedule("first", rule=every(minutes=1))
    page = visitor.page
    page.clock.install()
    visitor.open(url("schedule"))
    rows.schedule("second", rule=every(minutes=2))
    page.clock.run_for(16_000)
    expect(page.locator("text=second")).to_be_visible()
    asked: list[str] = []
    page.check("input[name=id] >> nth=0")
    page.on("request", lambda request: asked.append(request.url) if _reads(request) else None)
    page.clock.run_for(60_000)
    assert asked == []
    page.uncheck("input[name=id] >> nth=0")
    page.locator("#ss-q").focus()
    page.clock.run_for(60_000)
    assert asked == []
    rows.schedule("third", rule=every(minutes=3))
    page.locator("#ss-q").blur()
    page.clock.run_for(16_000)
    expect(page.locator("text=third")).to_be_visible()


def _reads(request: Request) -> bool:
    """Whether the page reads itself again; the stream that it listens to is another matter."""
    return request.headers.get("x-requested-with") == "fetch"


def test_without_script_every_action_works(scriptless: Visitor) -> None:
    # D1, A5, A17
    schedule = rows.schedule("quiet", rule=cron("0 1 * * *", tz="Europe/Berlin"))
    page = scriptless.open(url("schedule", "change", schedule.id)).page
    scriptless.click("text=Trigger now…")
    page.fill("#id_reason", "without script")
    scriptless.click("input[value='Trigger now']")
    run = Run.objects.get()
    assert run.short_id in scriptless.text()
    scriptless.click("text=Cancel…")
    page.fill("#id_reason", "changed my mind")
    scriptless.click("input[value='Cancel the run']")
    assert "Cancelled" in scriptless.text()
    scriptless.click("text=Retry…")
    scriptless.click("input[value=Retry]")
    assert Run.objects.count() == 2
    scriptless.open(url("schedule", "change", schedule.id))
    scriptless.click("text=Pause…")
    page.fill("#id_note", "deploy")
    scriptless.click("text=Pause with an open end")
    assert "Paused" in scriptless.text()
    scriptless.click("text=Resume…")
    scriptless.click("input[value='Resume now']")
    scriptless.click("text=Edit…")
    page.fill("#id_expression", "30 2 * * *")
    scriptless.click("input[value=Check]")
    assert "02:30 does not exist in Europe/Berlin" in scriptless.text()
    scriptless.click("input[value=Save]")
    assert "Every day at 02:30" in scriptless.text()
    scriptless.click("text=Fill gap…")
    scriptless.click("input[value=Check]")
    assert "would be submitted" in scriptless.text()
    assert Schedule.objects.get().expression == "30 2 * * *"


def test_without_script_the_page_can_refresh_itself(scriptless: Visitor) -> None:
    # D1
    scriptless.open(url("run"))
    scriptless.click("text=refresh every 15 s")
    html = scriptless.page.content()
    assert re.search(r'<meta http-equiv="refresh" content="15">', html)


def test_a_failure_is_seen_with_its_traceback_and_retried(
    visitor: Visitor, scheduler: subprocess.Popen[bytes]
) -> None:
    # D1, B1
    schedule = rows.schedule("broken", job="tests.fail", rule=cron("0 1 * * *", tz="UTC"))
    page = visitor.open(url("schedule", "trigger", schedule.id)).page
    page.fill("#id_reason", "to see it fail")
    page.click("input[value='Trigger now']")
    verdict = page.locator(".ss-verdict")
    expect(verdict).to_contain_text("Failed after 3 attempts")
    assert "ValueError: no such order" in page.inner_text(".ss-error")
    assert "tests/testapp/jobs.py" in page.inner_text("#ss-trace")
    visitor.click("text=Retry…").click("input[value=Retry]")
    expect(verdict).to_contain_text("Failed after 3 attempts")
    assert Run.objects.filter(trigger="retry", status=State.FAILED).count() == 1
