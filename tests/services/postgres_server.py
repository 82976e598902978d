"""A PostgreSQL server, from the programs on PATH or in the folders where distributions put them."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.services.account import make_folder, run, unprivileged
from tests.services.ports import free_port
from tests.services.server import Server, StartFailed, Unavailable

USER = "postgres"
# Durability is not what tests ask of it, speed is.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
}


def start(*, settings: Mapping[str, str] | None = None) -> Server:
    if importlib.util.find_spec("psycopg") is None:
        raise Unavailable("psycopg is not installed (extra [postgres])")
    initdb, postgres = _binary("initdb"), _binary("postgres")
    account = unprivileged("postgres")
    folder, port = make_folder("postgres", account), free_port()
    data = folder / "data"
    made = run(
        *(initdb, "--pgdata", str(data), "--username", USER, "--auth", "trust"),
        *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        folder=folder,
        account=account,
    )
    if made.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise StartFailed(f"initdb failed\n{made.stdout}{made.stderr}")
    options = {
        **SETTINGS,
        "port": str(port),
        "unix_socket_directories": str(folder),
        **(settings or {}),
    }
    flags = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
    url = f"postgres://{USER}@127.0.0.1:{port}/postgres"
    return Server(
        name="PostgreSQL",
        url=url,
        port=port,
        folder=folder,
        argv=(postgres, "-D", str(data), *flags),
        is_ready=partial(answers, url),
        account=account,
        stop_signal=signal.SIGINT,  # "fast": ends the sessions instead of waiting for them
    ).launch()


def fresh_database(server: Server) -> str:
    """Create an empty database and return its URL."""
    import psycopg

    name = f"fresh_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.url.rpartition("/")[0] + f"/{name}"


def answers(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _binary(name: str) -> str:
    found = shutil.which(name)
    if found:
        return found
    # Debian keeps them off PATH, one folder per major version; take the newest.
    installed = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"),
        key=lambda path: float(path.parts[-3]),
    )
    if installed:
        return str(installed[-1])
    raise Unavailable(f"no {name} on PATH nor under /usr/lib/postgresql; install PostgreSQL")
