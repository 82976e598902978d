"""Shows the scheduler at work: a small shop with a web server and a scheduler.

    python example_project/demo.py

Everything that it writes is in one folder (`.demo/`, or DEMO_DIR). DATABASE_URL and
REDIS_URL move it to other servers, DEMO_PORT sets the port, DEMO_SECONDS ends it by itself.
"""

from __future__ import annotations

import collections
import http.client
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 8000, 8099
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
LAST_LINES = 20
# The `make` that has started the demo; nobody, if it was started by itself.
MADE_BY = os.getppid() if "MAKELEVEL" in os.environ else None

# Beside each child, in a process of its own: waits until the demo is gone, however it went, and
# ends the child's group. (What the demo itself has ended is ended without it.)
GUARD = """
import os, signal, sys, time
group = int(sys.argv[1])
sys.stdin.read()
try:
    os.killpg(group, signal.SIGTERM)
    for _ in range(100):
        time.sleep(0.1)
        os.killpg(group, 0)
    os.killpg(group, signal.SIGKILL)
except ProcessLookupError:
    pass
"""


class DemoFailed(Exception):
    """Something the demo cannot go on without; the text is for the person who started it."""


class Child:
    """One process of the demo, whose lines are printed under its name."""

    def __init__(self, name: str, *arguments: str, env: dict[str, str]) -> None:
        self.name = name
        self.last_lines: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        # A group of its own: Ctrl-C reaches only the demo, which then stops its children in order.
        self.process = subprocess.Popen(
            manage(*arguments),
            cwd=HERE,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            process_group=0,
        )
        self._guard = subprocess.Popen(
            [sys.executable, "-c", GUARD, str(self.process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, name=f"read-{name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last_lines.append(line.rstrip())
            say(f"{self.name:<9} | {line.rstrip()}")

    def check(self) -> None:
        """Raise if the process has ended; it should not have."""
        code = self.process.poll()
        if code is not None:
            self._reader.join(timeout=2)
            lines = "\n".join(f"    {line}" for line in self.last_lines)
            raise DemoFailed(
                f"The {self.name} process ended by itself with code {code}."
                f" Its last lines:\n{lines}"
            )

    def ask_to_stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Whether the process ended in time; if not, it is killed with all its children."""
        try:
            self.process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        finally:
            self._guard.kill()
            self._guard.communicate()
        self._reader.join(timeout=2)
        return True


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(HERE / "manage.py"), *arguments]


def say(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more (`demo.py | head`): stop, but let the children write on until then.
        os.kill(os.getpid(), signal.SIGTERM)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - it stays open to the end


def prepare(data: Path, password: str) -> dict[str, str]:
    """Database, tables, customers and the login; the environment for the children."""
    data.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "DEMO_DIR": str(data),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONUNBUFFERED": "1",
    }
    if importlib.util.find_spec("sync_scheduler") is None:
        # Run from a checkout in which the package is not installed.
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), env.get("PYTHONPATH")]))
    for arguments in (["migrate", "--verbosity", "0"], ["seed_demo"]):
        done = subprocess.run(
            manage(*arguments),
            cwd=HERE,
            env={**env, "DEMO_ADMIN_PASSWORD": password},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,
            check=False,
        )
        if done.returncode:
            raise DemoFailed(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        if done.stdout:
            say(done.stdout.rstrip())
    return env


def pick_port() -> int:
    wanted = number_from("DEMO_PORT")
    if wanted is not None:
        if is_free(wanted):
            return wanted
        raise DemoFailed(f"Port {wanted} is taken. Choose another one with DEMO_PORT.")
    for port in range(FIRST_PORT, LAST_PORT + 1):
        if is_free(port):
            return port
    raise DemoFailed(
        f"No port from {FIRST_PORT} to {LAST_PORT} is free. Choose one with DEMO_PORT."
    )


def number_from(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal():
        raise DemoFailed(f"{name} must be a whole number, not {text!r}.")
    return int(text)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the web server does; or a port that was used a minute ago would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/admin/login/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_until_open(children: list[Child], port: int, stop: threading.Event) -> None:
    deadline = time.monotonic() + READY_SECONDS
    is_open = False
    while not is_open and not stop.wait(0.2):
        is_open = answers(port)
        for child in children:
            child.check()
        if not is_open and time.monotonic() > deadline:
            raise DemoFailed(f"The web server did not answer within {READY_SECONDS:.0f} seconds.")


def watch(children: list[Child], seconds: int | None, stop: threading.Event) -> None:
    """Return when somebody asks to stop or the time is over; raise if a child ends."""
    end = None if seconds is None else time.monotonic() + seconds
    while not stop.wait(0.2):
        for child in children:
            child.check()
        if MADE_BY not in (None, os.getppid()):
            return  # `make` was killed, which it cannot tell us
        if end is not None and time.monotonic() >= end:
            return


def close(children: list[Child]) -> list[str]:
    """Stop all; the names of those that had to be killed."""
    for child in children:
        child.ask_to_stop()
    deadline = time.monotonic() + STOP_SECONDS
    return [child.name for child in children if not child.wait(deadline - time.monotonic())]


def run(stop: threading.Event) -> None:
    seconds = number_from("DEMO_SECONDS")
    data = Path(os.environ.get("DEMO_DIR") or HERE / ".demo").resolve()
    password = secrets.token_urlsafe(9)
    say("Preparing the shop ...")
    port = pick_port()
    env = prepare(data, password)
    children: list[Child] = []
    try:
        if not stop.is_set():
            children.append(Child("web", "runserver", "--noreload", f"{HOST}:{port}", env=env))
            children.append(Child("scheduler", "runscheduler", env=env))
            wait_until_open(children, port, stop)
        if not stop.is_set():
            say(
                f"\n  The shop is open:  http://{HOST}:{port}/admin/"
                f"\n  User:              admin"
                f"\n  Password:          {password}"
                f"\n  Ctrl-C stops everything.\n"
            )
        watch(children, seconds, stop)
    finally:
        if children:
            say("Stopping ...")
        killed = close(children)
    if killed:
        raise DemoFailed(f"Had to be killed, did not stop in time: {', '.join(killed)}.")
    say("Stopped.")


def main() -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    try:
        run(stop)
    except DemoFailed as problem:
        say(str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
