"""Keeps one scheduler per machine beside a web server. Run as a program, not imported.

Every web process starts one of these. The one that gets the lock starts `runscheduler` and looks
after it; the others wait for their turn, without Django and without work. When the web process
ends, however it ends, its pipe closes; then the scheduler is stopped and the lock is free.

    python guard.py LOCK_FILE COMMAND ...
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys

_LOOK_SECONDS = 0.5
_RESTART_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


def main(lock_file: str, command: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal's Ctrl-C reaches the whole group; what counts is whether the web server ends.
        signal.signal(number, signal.SIG_IGN)
    lock = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    while not _locked(lock):
        if _is_web_server_gone(_LOOK_SECONDS):
            return 0
    child = _start(command, lock)
    while not _is_web_server_gone(_LOOK_SECONDS):
        if child.poll() is not None:
            if _is_web_server_gone(_RESTART_SECONDS):
                return 0
            child = _start(command, lock)
    child.send_signal(signal.SIGTERM)
    child.wait()
    return 0


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_web_server_gone(seconds: float) -> bool:
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return False
    return os.read(sys.stdin.fileno(), 1) == b""


def _start(command: list[str], lock: int) -> subprocess.Popen[bytes]:
    # It holds the lock as well: if this guard is killed, there is still only one scheduler.
    return subprocess.Popen(  # noqa: S603  # our own command line
        command, stdin=subprocess.DEVNULL, pass_fds=(lock,), preexec_fn=_prepare
    )


def _prepare() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
