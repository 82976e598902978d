"""A small site: the scheduler lives and dies with the web server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sync_scheduler.models import Run
from tests.services.ports import free_port
from tests.services.server import wait_until
from tests.testapp import jobs

PROJECT = Path(__file__).parents[2]


@contextlib.contextmanager
def web_server(*flags: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "SYNC_SCHEDULER_RUN_IN_SERVER": "true",
        "SYNC_SCHEDULER_PROCESSES": "1",
        "SYNC_SCHEDULER_POLL_INTERVAL": "0.2",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "runserver", *flags, f"127.0.0.1:{free_port()}"],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def schedulers(root: int) -> list[psutil.Process]:
    """The `runscheduler` processes that guards of this process group have started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            parent = process.parent()
            if os.getpgid(process.pid) == root and parent is not None and is_guard(parent):
                found.append(process)
    return found


def is_guard(process: psutil.Process) -> bool:
    return any(part.endswith("guard.py") for part in process.cmdline())


def wait_completed(run: Run) -> None:
    wait_until(
        lambda: Run.objects.get(pk=run.pk).status == "completed",
        seconds=60,
        what="the run is completed",
    )


@pytest.mark.django_db(transaction=True)
def test_a_web_server_runs_what_is_submitted_and_ends_its_scheduler_with_itself() -> None:
    # B14
    with web_server("--noreload") as server:
        run = jobs.add.submit(a=1, b=2)
        wait_completed(run)
        (scheduler,) = schedulers(server.pid)
        server.kill()
        wait_until(lambda: not scheduler.is_running(), seconds=60, what="the scheduler has ended")


@pytest.mark.django_db(transaction=True)
def test_two_web_servers_on_a_machine_share_one_scheduler_and_the_second_takes_over() -> None:
    # B14
    with (
        web_server("--noreload") as first,
        web_server("--noreload") as second,
    ):
        wait_until(
            lambda: bool(schedulers(first.pid) or schedulers(second.pid)),
            seconds=60,
            what="a scheduler runs",
        )
        both = {first.pid: first, second.pid: second}
        (leading,) = [pid for pid in both if schedulers(pid)]
        (waiting,) = [pid for pid in both if pid != leading]
        run = jobs.noop.submit()
        wait_completed(run)
        assert not schedulers(waiting)
        both[leading].kill()
        wait_until(lambda: bool(schedulers(waiting)), seconds=60, what="the other took over")
