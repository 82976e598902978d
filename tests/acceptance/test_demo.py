"""The demo: what a newcomer sees in the first minute, on the database at hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.demo.process import ADDRESS, PASSWORD, Browser, Demo, eventually

SECTIONS = ("schedule", "run", "node", "deadletter")


def test_the_demo_runs_jobs_shows_them_in_the_admin_and_stops_cleanly(
    tmp_path: Path, database_url: str
) -> None:
    # A1, C3, C8, D1, D2, D3
    with Demo(tmp_path, DATABASE_URL=database_url) as demo:
        browser = Browser(demo.printed(ADDRESS))
        page = browser.log_in("admin", demo.printed(PASSWORD))
        assert "Log out" in page
        sections = [f"/admin/sync_scheduler/{name}/" for name in SECTIONS]
        assert [path for path in sections if path not in page] == []

        def completed_some() -> Any:
            status = demo.manage("scheduler", "status")
            return status["last_24h"]["completed"] >= 5 and status

        status = eventually(completed_some, "five completed runs")
        assert status["leader"]["node"] in [node["name"] for node in status["nodes"]]
        for path in sections:
            browser.get(path)
        schedules = browser.get("/admin/sync_scheduler/schedule/")
        assert "orders-arrive" in schedules
        browser.get(first_link(schedules))

        assert len(demo.processes()) >= 3
        demo.press_ctrl_c()
        assert demo.wait() == 0
        assert "Traceback" not in demo.output
        assert demo.processes() == []


def test_a_card_token_is_shown_nowhere(tmp_path: Path, database_url: str) -> None:
    # D1, D2, D3
    with Demo(tmp_path, DATABASE_URL=database_url) as demo:
        browser = Browser(demo.printed(ADDRESS))
        browser.log_in("admin", demo.printed(PASSWORD))

        def charged() -> Any:
            runs = demo.manage("scheduler", "history")["runs"]
            return next((run["id"] for run in runs if run["job"] == "shop.charge_card"), None)

        run = eventually(charged, "a run that charges a card")
        shown = [
            browser.get(f"/admin/sync_scheduler/run/{run}/change/"),
            browser.get(f"/scheduler/v1/runs/{run}"),
            str(demo.manage("scheduler", "show", run)),
        ]
        for text in shown:
            assert "card_token" in text
            assert "tok_" not in text
        assert "tok_" not in demo.output


def first_link(page: str) -> str:
    """Where the first row of a list in the admin leads to."""
    found = re.search(r'href="([^"?#]+/change/)', page)
    assert found is not None, page
    return found[1]
