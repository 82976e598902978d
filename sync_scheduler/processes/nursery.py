"""The nursery: a process with a single thread that does nothing but fork children.

Forking a process that has threads copies locks in whatever state they are; so the nursery is forked
before the first thread starts, and makes every later child. It knows Django and the jobs already,
which makes a new child cost milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
from collections.abc import Callable

from django.db import connections

_BORN, _GONE = b"B", b"G"
_RECORD = struct.Struct("!cqi")
_PR_SET_PDEATHSIG = 1

# Its ends of the pipes for control and for orders, and the descriptor of its slate.
ChildMain = Callable[[socket.socket, socket.socket, int], None]


class Nursery:
    """The parent's end: asks for children and hears of their death."""

    def __init__(self, child_main: ChildMain) -> None:
        connections.close_all()
        self._sock, theirs = _pair()
        self.pid = os.fork()
        if self.pid == 0:
            self._sock.close()
            _serve(theirs, child_main)
        theirs.close()
        self._statuses: dict[int, int] = {}

    def spawn(self, slate: int) -> tuple[int, socket.socket, socket.socket]:
        """A new child: its process id, and our ends of its pipes for control and for orders.

        `slate` is the descriptor of its slate.
        """
        control, its_control = _pair()
        orders, its_orders = _pair()
        socket.send_fds(self._sock, [_BORN], [its_control.fileno(), its_orders.fileno(), slate])
        its_control.close()
        its_orders.close()
        while True:
            kind, pid, status = self._read()
            if kind == _BORN:
                return pid, control, orders
            self._statuses[pid] = status

    def status_of(self, pid: int, seconds: float = 2.0) -> int | None:
        """How a child ended, as `os.waitstatus_to_exitcode` says; None if it is not known yet."""
        while pid not in self._statuses:
            if not select.select([self._sock], [], [], seconds)[0]:
                return None
            _, gone, status = self._read()
            self._statuses[gone] = status
        return self._statuses.pop(pid)

    def close(self) -> None:
        """End the nursery and with it every child; when this returns, none of them lives."""
        self._sock.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self) -> tuple[bytes, int, int]:
        data = b""
        while len(data) < _RECORD.size:
            part = self._sock.recv(_RECORD.size - len(data))
            if not part:
                raise ConnectionError("the nursery process is gone")
            data += part
        kind, pid, status = _RECORD.unpack(data)
        return kind, pid, status


def _patient(sock: socket.socket) -> socket.socket:
    """Waits as long as it takes: a project may have set a time limit for all sockets."""
    sock.settimeout(None)
    return sock


def _pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    return _patient(ours), _patient(theirs)


def _serve(control: socket.socket, child_main: ChildMain) -> None:
    """The nursery's whole life; never returns."""
    # Signals of a terminal or a supervisor reach the whole group; the parent decides what they
    # mean for us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    while True:
        sources: list[socket.socket | int] = [control, wake_read]
        readable, _, _ = select.select(sources, [], [])
        if wake_read in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            _reap(control, children)
        if control in readable:
            message, fds = _next_request(control)
            if not message:
                _end_all(children)
                os._exit(0)
            _bear(control, fds, children, child_main)


def _next_request(control: socket.socket) -> tuple[bytes, list[int]]:
    try:
        message, fds, _, _ = socket.recv_fds(control, 1, 3)
    except ConnectionResetError:
        # The parent left without reading of the last deaths; that is an end like any other.
        return b"", []
    return message, fds


def _bear(
    control: socket.socket, fds: list[int], children: set[int], child_main: ChildMain
) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            control.close()
            its_control, its_orders, slate = fds
            child_main(
                _patient(socket.socket(fileno=its_control)),
                _patient(socket.socket(fileno=its_orders)),
                slate,
            )
            code = 0
        finally:
            os._exit(code)
    for fd in fds:
        os.close(fd)
    children.add(pid)
    control.sendall(_RECORD.pack(_BORN, pid, 0))


def _reap(control: socket.socket, children: set[int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        with contextlib.suppress(OSError):
            control.sendall(_RECORD.pack(_GONE, pid, os.waitstatus_to_exitcode(status)))


def _end_all(children: set[int]) -> None:
    """Kill them and see them dead: a process that was killed may still be about to die."""
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def die_with_parent() -> None:
    """Where the kernel can: a process whose parent was killed is killed too."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
