"""The demo: what a newcomer sees in the first minute."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

from tests.acceptance.demo_process import Browser, Demo, eventually

ADDRESS = r"The shop is open:\s+(http://\S+)"
PASSWORD = r"Password:\s+(\S+)"
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


def test_a_second_demo_on_the_same_data_gives_a_new_password(
    tmp_path: Path, database_url: str
) -> None:
    # D1
    with Demo(tmp_path, DATABASE_URL=database_url, DEMO_SECONDS="0") as demo:
        first = demo.printed(PASSWORD)
        assert demo.wait() == 0
        assert "orders are in the shop" in demo.output
    with Demo(tmp_path, DATABASE_URL=database_url) as demo:
        second = demo.printed(PASSWORD)
        assert second != first
        # The shop was filled once only; the new password is the one that opens the door.
        assert "orders are in the shop" not in demo.output
        address = demo.printed(ADDRESS)
        assert "Log out" not in Browser(address).log_in("admin", first)
        assert "Log out" in Browser(address).log_in("admin", second)


def test_a_killed_scheduler_ends_the_demo_which_says_so(tmp_path: Path) -> None:
    # A10, B11
    with Demo(tmp_path) as demo:
        demo.printed(ADDRESS)
        demo.process_of("runscheduler").kill()
        assert demo.wait() == 1
        assert "The scheduler process ended by itself with code -9." in demo.output
        assert "Traceback" not in demo.output
        eventually(lambda: not demo.processes(), "the end of all processes of the demo")


def test_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    # A10
    with Demo(tmp_path) as demo:
        demo.printed(ADDRESS)
        demo.kill()
        eventually(lambda: not demo.processes(), "the end of all processes of the demo")


def test_a_demo_whose_make_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    # A10
    with Demo(tmp_path, through_make=True) as demo:
        demo.printed(ADDRESS)
        demo.kill()
        eventually(lambda: not demo.processes(), "the end of all processes of the demo")


def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    # C7
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with Demo(tmp_path, DEMO_PORT=port) as demo:
            assert demo.wait() == 1
            last = demo.lines[-1]
    assert last == f"Port {port} is taken. Choose another one with DEMO_PORT.\n"


def first_link(page: str) -> str:
    """Where the first row of a list in the admin leads to."""
    found = re.search(r'href="([^"?#]+/change/)', page)
    assert found is not None, page
    return found[1]
