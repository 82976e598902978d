"""The demo from its start to its end: as it is on SQLite, it is on the other databases."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.demo.process import ADDRESS, PASSWORD, Browser, Demo, eventually


def test_a_second_demo_on_the_same_data_gives_a_new_password(tmp_path: Path) -> None:
    # D1
    with Demo(tmp_path, DEMO_SECONDS="0") as demo:
        first = demo.printed(PASSWORD)
        assert demo.wait() == 0
        assert "orders are in the shop" in demo.output
    with Demo(tmp_path) as demo:
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
