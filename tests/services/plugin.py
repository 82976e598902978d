"""The pytest side of the servers: the database of the run, fixtures, and loud skips.

Loaded by `-p` before any other plugin reads Django's settings, so that the database which
TEST_DATABASE names (`sqlite`, `postgres` or `mysql`) is up by then. A test's subprocesses
inherit the environment and meet the same database.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import redis

from tests.services import mariadb_server, postgres_server, redis_server
from tests.services.server import Server, Unavailable, at_exit

# Returned when the machine has no such database server; `make test` then says so and goes on.
EXIT_UNAVAILABLE = 77

# The server that the run's own database lives in, if it is not a file.
_of_the_run: dict[str, Server] = {}
# Servers that fixtures asked for in vain, with the reason.
_missing: dict[str, str] = {}


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, None, None]:
    # A developer's shell must not decide what the tests prove.
    for name in [name for name in os.environ if name.startswith("SYNC_SCHEDULER_")]:
        del os.environ[name]
    kind = os.environ.setdefault("TEST_DATABASE", "sqlite")
    if "TEST_DATABASE_URL" not in os.environ:
        try:
            os.environ["TEST_DATABASE_URL"] = _database_url(kind)
        except Unavailable as reason:
            _end(f"cannot be tested here: {reason}", code=1 if in_ci() else EXIT_UNAVAILABLE)
    return (yield)


def _end(sentence: str, *, code: int) -> NoReturn:
    # pytest.exit() is understood only later; here it would end in a traceback.
    sys.stderr.write(f"TEST_DATABASE={os.environ['TEST_DATABASE']} {sentence}\n")
    raise SystemExit(int(code))


def _database_url(kind: str) -> str:
    if kind == "sqlite":
        folder = Path(tempfile.mkdtemp(prefix="ss-sqlite-"))
        at_exit(partial(shutil.rmtree, folder, ignore_errors=True))
        return f"sqlite:///{folder / 'tests.sqlite3'}"
    if kind == "postgres":
        server = _of_the_run[kind] = postgres_server.start()
    elif kind == "mysql":
        server = _of_the_run[kind] = mariadb_server.start()
    else:
        _end("is not one of sqlite, postgres, mysql", code=pytest.ExitCode.USAGE_ERROR)
    return server.url.rpartition("/")[0] + "/sync_scheduler_tests"


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    for server in _of_the_run.values():
        server.close()


def pytest_report_header() -> str:
    return f"database: {os.environ['TEST_DATABASE']}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _missing:
        terminalreporter.section("servers that this machine could not provide", yellow=True)
        for name, reason in _missing.items():
            terminalreporter.line(f"{name}: {reason}; the tests that need it were skipped")


def provide(name: str, start: Callable[[], Server]) -> Server:
    """Start a server for a fixture: without it, fail in CI and skip loudly elsewhere."""
    try:
        return start()
    except Unavailable as reason:
        if in_ci():
            pytest.fail(f"{name}: {reason}", pytrace=False)
        _missing[name] = str(reason)
        pytest.skip(f"{name}: {reason}")


@pytest.fixture(scope="session", name="redis_server")
def shared_redis() -> Generator[Server, None, None]:
    """One Redis server for the run. A test that stops or freezes it starts its own instead."""
    with provide("redis", redis_server.start) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> Generator[str, None, None]:
    """The URL of the shared Redis server, emptied for this test.

    Nobody mistreats this one: if it is late, the machine is busy. It is not to be taken for dead
    within the quarter of a second that a web request would wait for it.
    """
    from sync_scheduler import conf

    monkeypatch.setenv("SYNC_SCHEDULER_REDIS_TIMEOUT", "10")
    with redis.Redis(host=redis_server.host, port=redis_server.port) as client:
        client.flushall()
    conf._read.cache_clear()
    yield redis_server.url
    # What was read last would outlive the variable.
    monkeypatch.delenv("SYNC_SCHEDULER_REDIS_TIMEOUT")
    conf._read.cache_clear()


@pytest.fixture(scope="session", name="postgres_server")
def shared_postgres() -> Generator[Server, None, None]:
    """One PostgreSQL server for the run, beside whatever TEST_DATABASE says."""
    if "postgres" in _of_the_run:
        yield _of_the_run["postgres"]
        return
    with provide("postgres", postgres_server.start) as server:
        yield server


@pytest.fixture(scope="session", name="mariadb_server")
def shared_mariadb() -> Generator[Server, None, None]:
    """One MariaDB server for the run, beside whatever TEST_DATABASE says."""
    if "mysql" in _of_the_run:
        yield _of_the_run["mysql"]
        return
    with provide("mariadb", mariadb_server.start) as server:
        yield server
