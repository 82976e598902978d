"""One running server process, whatever it serves, and the verbs a test may use on it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.services.account import Account

LAUNCH = Path(__file__).with_name("launch.py")
START_SECONDS = 60.0
STOP_SECONDS = 20.0


class Unavailable(Exception):
    """The machine cannot provide this server; the message says why and what would help."""


class StartFailed(Exception):
    """The server is installed but did not come up; the message carries the end of its log."""


def at_exit(tidy: Callable[[], None]) -> None:
    """Tidy up when this process ends, and not when a child that a test forked does."""
    owner = os.getpid()

    def tidy_own() -> None:
        if os.getpid() == owner:
            tidy()

    atexit.register(tidy_own)


def wait_until(
    condition: Callable[[], bool], *, seconds: float, what: str, every: float = 0.02
) -> None:
    """Return as soon as the condition holds; raise TimeoutError, naming it, if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(every)


@dataclass(kw_only=True)
class Server:
    """A server of our own. `stop`, `kill` and `pause` keep its data; `close` removes it."""

    name: str
    url: str
    port: int
    folder: Path
    argv: tuple[str, ...]
    is_ready: Callable[[], bool]
    host: str = "127.0.0.1"
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _is_tidied: bool = field(default=False, repr=False)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def launch(self) -> Self:
        """Start the process and return when it answers."""
        if self.is_running:
            raise RuntimeError(f"{self.name} is running already")
        if not self._is_tidied:
            at_exit(self.close)
            self._is_tidied = True
        account = f"{self.account.uid}:{self.account.gid}" if self.account else "-"
        command = [sys.executable, "-I", str(LAUNCH), str(int(self.stop_signal)), account]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self.argv],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(self._is_up, seconds=START_SECONDS, what=f"{self.name} answers")
        except TimeoutError as error:
            self.kill()
            raise StartFailed(f"{error}\n{self.log_tail()}") from error
        return self

    def _is_up(self) -> bool:
        if not self.is_running:
            raise StartFailed(f"{self.name} ended while starting\n{self.log_tail()}")
        return self.is_ready()

    def log_tail(self, characters: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def stop(self) -> None:
        """Ask it to end in good order, and wait; a paused server is woken first."""
        if self._process is None:
            return
        if self.is_running:
            self.resume()
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """End it and all its children at once, as a power cut would."""
        if self._process is None:
            return
        family = self._family()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        self._process.wait(STOP_SECONDS)
        psutil.wait_procs(family, timeout=STOP_SECONDS)
        self._process = None

    def pause(self) -> None:
        """Freeze it and all its children: connections stay open, nothing answers."""
        for member in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.suspend()

    def resume(self) -> None:
        for member in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.resume()

    def restart(self) -> None:
        """Stop it if it runs, then start it again: same port, same data."""
        self.stop()
        self.launch()

    def close(self) -> None:
        """End it and remove everything it stored."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _family(self) -> list[psutil.Process]:
        """The process and its descendants; PostgreSQL's are in process groups of their own."""
        if not self.is_running:
            return []
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
