"""The site of a fault test: the run's own database, or a PostgreSQL server of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import environ
import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker, Settings

from tests.faults.harness import QUICK, Site
from tests.services import Server, postgres_server, redis_server
from tests.services.plugin import provide


def _as_settings(environment: dict[str, str]) -> dict[str, Any]:
    """The same configuration for the test's own process as for the nodes."""
    prefix = "SYNC_SCHEDULER_"
    return {
        name.removeprefix(prefix): value if name.endswith("_URL") else float(value)
        for name, value in environment.items()
        if name.startswith(prefix)
    }


@pytest.fixture
def site(tmp_path: Path, transactional_db: None, settings: Settings) -> Generator[Site, None, None]:
    """Embedded mode on the run's own database."""
    settings.SYNC_SCHEDULER = _as_settings(QUICK)
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def _standing(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None
) -> Generator[Site, None, None]:
    made = Site(tmp_path_factory.mktemp("standing"), {"SYNC_SCHEDULER_MAX_CHAIN_DEPTH": "5"})
    made.start()
    yield made
    made.close()


@pytest.fixture
def working(_standing: Site, transactional_db: None, settings: Settings) -> Site:
    """A site whose one node stays between tests, for what it is to shrug off."""
    settings.SYNC_SCHEDULER = _as_settings(QUICK)
    _standing.ledger.unlink(missing_ok=True)
    assert _standing.nodes[0].is_running, _standing.report()
    return _standing


@pytest.fixture
def redis_site(site: Site, redis_url: str, settings: Settings) -> Site:
    """The same with the shared Redis server."""
    _use_redis(site, redis_url, settings)
    return site


@pytest.fixture
def use_redis(settings: Settings) -> Callable[[Site, str], None]:
    """Point a site, and this process, at a Redis."""
    return lambda site, url: _use_redis(site, url, settings)


def _use_redis(site: Site, url: str, settings: Settings) -> None:
    site.environment["SYNC_SCHEDULER_REDIS_URL"] = url
    settings.SYNC_SCHEDULER = _as_settings(site.environment)


@pytest.fixture
def own_redis() -> Generator[Server, None, None]:
    """A Redis server that a test may stop, freeze or empty."""
    with provide("redis", redis_server.start) as server:
        yield server


@pytest.fixture(scope="module")
def own_postgres() -> Generator[Server, None, None]:
    """A PostgreSQL server that a test may stop, restart or make read-only."""
    with provide("postgres", postgres_server.start) as server:
        yield server


@pytest.fixture
def postgres_site(
    own_postgres: Server,
    tmp_path: Path,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
) -> Generator[Site, None, None]:
    """Nodes, and this process, on a fresh database of the test's own PostgreSQL server."""
    settings.SYNC_SCHEDULER = _as_settings(QUICK)
    url = postgres_server.fresh_database(own_postgres)
    made = Site(tmp_path, {"TEST_DATABASE": "postgres", "TEST_DATABASE_URL": url})
    with django_db_blocker.unblock(), _connected_to(url):
        call_command("migrate", verbosity=0)
        yield made
        made.close()


@contextmanager
def _connected_to(url: str) -> Generator[None, None, None]:
    before, outside = connections.settings["default"], connections["default"]
    connections.settings["default"] = {
        **before,
        **environ.Env.db_url_config(url),
        "OPTIONS": {"connect_timeout": 2},
    }
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"] = before
        connections["default"] = outside
