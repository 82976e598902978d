"""A real browser against a real server, with a scheduler beside it where a test needs one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from sync_scheduler import clock
from sync_scheduler.live import feed, seats, stream
from tests.services.plugin import in_ci

# Django refuses the database inside an event loop, and Playwright keeps one in this thread.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ROOT = Path(__file__).resolve().parents[2]
# A deadline, not a measure: the machine may be busy with everything else.
DEADLINE = 60_000
expect.set_options(timeout=DEADLINE)
DESKTOP = (1280, 800)
PHONE = (390, 844)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """What the server keeps between requests must not reach from one test into another.

    Streams notice soon that their reader has gone; the database is theirs until then.
    """
    monkeypatch.setattr(feed, "shared", feed.Feed())
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(stream, "THREAD_HEARTBEAT_SECONDS", 0.2)
    yield
    deadline = clock.monotonic() + 60
    while seats.taken() and clock.monotonic() < deadline:
        clock.sleep(0.05)
    assert seats.taken() == 0, "a stream outlives its reader"


class Visitor:
    """A person at a browser who counts the clicks."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.clicks = 0

    def open(self, path: str = "/admin/") -> Visitor:
        self.page.goto(self.address + path)
        return self

    def click(self, selector: str) -> Visitor:
        # Every click leads to a page; it is read only when it is there as a whole.
        with self.page.expect_navigation():
            self.page.click(selector)
        self.clicks += 1
        return self

    def text(self) -> str:
        return self.page.inner_text("#content")


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser, None, None]:
    """A browser for the tests of one module.

    While it is open an event loop runs in this thread, and others could not start theirs.
    """
    if CHROMIUM is None:
        if in_ci():
            pytest.fail("Chromium is not installed", pytrace=False)
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def visit(
    chromium: Browser,
    server: LiveServer,
    size: tuple[int, int] = DESKTOP,
    *,
    dark: bool = False,
    scripts: bool = True,
) -> Visitor:
    """A visitor who has logged in as an operator."""
    if not User.objects.filter(username="ops").exists():
        User.objects.create_superuser("ops", password="secret")
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
    )
    context.set_default_timeout(DEADLINE)
    page = context.new_page()
    page.goto(f"{server.url}/admin/login/?next=/admin/")
    page.fill("#id_username", "ops")
    page.fill("#id_password", "secret")
    # Whoever asks for the next page before the answer is there has not logged in.
    with page.expect_navigation(url="**/admin/"):
        page.click("input[type=submit]")
    return Visitor(page, server.url)


@pytest.fixture
def visitor(chromium: Browser, live_server: LiveServer) -> Iterator[Visitor]:
    someone = visit(chromium, live_server)
    yield someone
    someone.page.context.close()


@pytest.fixture
def scriptless(chromium: Browser, live_server: LiveServer) -> Iterator[Visitor]:
    someone = visit(chromium, live_server, scripts=False)
    yield someone
    someone.page.context.close()


@pytest.fixture
def scheduler(live_server: LiveServer) -> Iterator[subprocess.Popen[bytes]]:
    """A real scheduler process on the same database."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "SYNC_SCHEDULER_PROCESSES": "1",
        "SYNC_SCHEDULER_POLL_INTERVAL": "0.2",
        "SYNC_SCHEDULER_SHUTDOWN_GRACE": "2",
    }
    environment.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "runscheduler"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
