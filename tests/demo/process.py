"""The demo as a newcomer starts it: a process whose output is read line by line."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psutil

from tests.services.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "example_project"
PATIENCE = 120.0

# What it prints, and a newcomer looks for.
ADDRESS = r"The shop is open:\s+(http://\S+)"
PASSWORD = r"Password:\s+(\S+)"

T = TypeVar("T")


def eventually(question: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """Ask until the answer is true; give up with everything that is known."""
    deadline = time.monotonic() + patience
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {patience:.0f} s in vain for {what}.")
        time.sleep(0.1)
    return answer


def environment(folder: Path, **more: str) -> dict[str, str]:
    """As in a new terminal: nothing of the test run, and no `.env` that may lie about."""
    ours = ("DJANGO_", "TEST_", "SYNC_SCHEDULER_", "DEMO_", "PYTHON", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # Two demos that look for a free port at the same moment may find the same one.
    own = {"DEMO_DIR": str(folder), "DEMO_PORT": str(free_port())}
    return {**kept, "DATABASE_URL": "", "REDIS_URL": "", **own, **more}


class Demo:
    """Started on entering, and gone with all its processes on leaving."""

    def __init__(self, folder: Path, *, through_make: bool = False, **more: str) -> None:
        self._env = environment(folder, **more)
        self._command = [sys.executable, str(SHOP / "demo.py")]
        if through_make:
            # Without its own `make demo`, which would install an environment first.
            makefile = folder / "Makefile"
            makefile.write_text(f"demo:\n\t@{shlex.join(self._command)}\n")
            self._command = ["make", "-f", str(makefile), "demo"]
        self.lines: list[str] = []

    def __enter__(self) -> Demo:
        self._process = subprocess.Popen(
            self._command,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._reader.join()
        if error is not None:
            error.add_note("Output of the demo:\n" + self.output)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self.lines.extend(iter(stream.readline, ""))

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def processes(self) -> list[psutil.Process]:
        """Everything that this demo has started and that still lives, itself included."""
        found = []
        for process in psutil.process_iter():
            # It may end between any two questions.
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                is_ours = os.getsid(process.pid) == self._process.pid
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def process_of(self, command: str) -> psutil.Process:
        """The child of the demo that runs this command of manage.py."""
        children = psutil.Process(self._process.pid).children()
        return next(child for child in children if command in child.cmdline())

    def printed(self, pattern: str) -> str:
        """Wait for a line of the output; the first group of the pattern."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.output, re.MULTILINE)
            if found is None and self._process.poll() is not None:
                self._reader.join()
                raise AssertionError(f"The demo ended before it printed {pattern!r}.")
            return found

        return eventually(look, f"a line like {pattern!r}")[1]

    def press_ctrl_c(self) -> None:
        # A terminal sends the signal to the whole foreground group.
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """End the demo alone, so that it can do nothing any more."""
        self._process.kill()

    def wait(self) -> int:
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def manage(self, *arguments: str) -> Any:
        """What a command of the shop prints as JSON."""
        done = subprocess.run(
            [sys.executable, str(SHOP / "manage.py"), *arguments, "--json"],
            cwd=SHOP,
            env={**self._env, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


class Browser:
    """Just enough of one: it keeps cookies and fills in the login form."""

    def __init__(self, address: str) -> None:
        self._address = address
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)

    def get(self, path: str) -> str:
        return self._open(urllib.parse.urljoin(self._address, path))

    def log_in(self, user: str, password: str) -> str:
        form = self.get("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
        assert token is not None, form
        fields = {
            "csrfmiddlewaretoken": token[1],
            "username": user,
            "password": password,
            "next": "/admin/",
        }
        address = urllib.parse.urljoin(self._address, "/admin/login/")
        return self._open(address, urllib.parse.urlencode(fields).encode())

    def _open(self, address: str, data: bytes | None = None) -> str:
        with self._opener.open(address, data, timeout=PATIENCE) as response:
            return str(response.read().decode())
