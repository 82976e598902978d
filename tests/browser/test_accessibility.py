"""What axe-core, a checker of accessibility, finds on the screens."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from tests.browser.conftest import PHONE, visit
from tests.browser.test_screens import populate
from tests.services.plugin import in_ci

pytestmark = pytest.mark.django_db(transaction=True)

GRAVE = {"serious", "critical"}


@pytest.fixture
def axe() -> Any:
    name = "axe_playwright_python.sync_playwright"
    if in_ci():
        return importlib.import_module(name).Axe()
    reason = "axe-playwright-python is not installed; accessibility was not checked"
    return pytest.importorskip(name, reason=reason).Axe()


@pytest.mark.parametrize("how", ["light", "dark", "phone"])
def test_no_screen_has_a_serious_fault(
    chromium: Browser, live_server: LiveServer, axe: Any, how: str
) -> None:
    # D1
    addresses = populate()
    size = PHONE if how == "phone" else (1280, 800)
    someone = visit(chromium, live_server, size, dark=how == "dark")
    found = []
    for address in addresses:
        page = someone.open(address).page
        # Only what is ours: Django's own header and sidebar are not for us to judge.
        answer = axe.run(page, context={"include": [["#content"]]})
        for fault in answer.response["violations"]:
            if fault["impact"] in GRAVE:
                where = [node["html"][:120] for node in fault["nodes"][:3]]
                found.append((address, fault["id"], where))
    someone.page.context.close()
    assert found == []
