"""Every page works under a strict Content-Security-Policy: no inline script, no inline style."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from sync_scheduler.lifecycle import State
from sync_scheduler.timing.rules import cron
from tests.browser.conftest import PHONE, visit
from tests.browser.strict_policy import POLICY
from tests.browser.test_screens import populate, url
from tests.integration.admin import rows

pytestmark = pytest.mark.django_db(transaction=True)

# The browser itself says what it has refused, before any script of the page runs.
LISTEN = """window.refused = [];
document.addEventListener('securitypolicyviolation', event => window.refused.push(
    event.effectiveDirective + ' ' + event.blockedURI + ' ' + event.sourceFile));"""


def test_no_page_needs_anything_that_the_policy_forbids(
    chromium: Browser, live_server: LiveServer
) -> None:
    # security 8, D1
    addresses = populate()
    someone = visit(chromium, live_server)
    page = someone.page
    page.add_init_script(LISTEN)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for address in addresses:
        response = page.goto(live_server.url + address)
        assert response is not None
        assert response.headers["content-security-policy"] == POLICY
        assert page.evaluate("window.refused") == [], address
    assert [text for text in said if "Content Security Policy" in text] == []
    page.context.close()


def test_what_scripts_do_works_under_the_policy(chromium: Browser, live_server: LiveServer) -> None:
    # security 8, D1: the stream, the keys, the preview and the traceback's copy button
    schedule = rows.schedule("nightly", rule=cron("0 1 * * *", tz="Europe/Berlin"))
    run = rows.failed(schedule, traceback='  File "/srv/shop/jobs.py", line 1\n')
    someone = visit(chromium, live_server)
    page = someone.page
    page.add_init_script(LISTEN)
    someone.open(url("run"))
    expect(page.locator("[data-live-word]")).to_be_visible()
    rows.run(rows.schedule("told-at-once"), State.SUBMITTED)
    expect(page.locator("text=told-at-once").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("dialog.ss-keys")).to_be_visible()
    page.click("[data-keys-close]")
    assert page.evaluate("window.refused") == []
    someone.open(url("schedule", "edit", schedule.id))
    page.fill("#id_expression", "30 2 * * *")
    expect(page.locator("#ss-preview")).to_contain_text("02:30 does not exist")
    assert page.evaluate("window.refused") == []
    someone.open(url("run", "change", run.id))
    expect(page.locator("[data-copy]")).to_be_visible()
    assert page.evaluate("window.refused") == []
    page.context.close()


def test_the_test_itself_notices_what_the_policy_forbids(
    chromium: Browser, live_server: LiveServer
) -> None:
    # security 8
    someone = visit(chromium, live_server, PHONE)
    page = someone.page
    page.add_init_script(LISTEN)
    someone.open(url("dashboard"))
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.wait_for_function("window.refused.length > 0")
    page.context.close()
