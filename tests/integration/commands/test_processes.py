"""The command in a process of its own: exit codes, streams, and a real worker behind it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from sync_scheduler.models import Run
from tests.integration.api.rows import a_schedule
from tests.integration.commands.shell import PYTHON, environment, in_own_process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    command = [PYTHON, "-m", "django", "runscheduler", "--no-dispatch", "--processes", "1"]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def test_success_is_one_json_document_and_exit_code_0() -> None:
    # D3
    done = in_own_process("status", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["leader"] is None
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words",
    [["trigger", "nothing"], ["show", "123"], ["frobnicate"], ["preview", "x", "-n", "many"], []],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_1(words: list[str]) -> None:
    # D3
    done = in_own_process(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.usefixtures("worker")
def test_trigger_and_wait_returns_when_the_run_has_completed() -> None:
    # A5, B7
    a_schedule("sums", job="tests.add", input={"a": 2, "b": 3})
    done = in_own_process("trigger", "sums", "--wait", "--timeout", "50", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
    assert Run.objects.get().result == 5


@pytest.mark.usefixtures("worker")
def test_waiting_for_a_run_that_fails_is_exit_code_1_with_its_error() -> None:
    # A5, B7
    a_schedule("failing", job="tests.fail")
    done = in_own_process("trigger", "failing", "--wait", "--timeout", "50")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "is failed: ValueError: no such order" in line
