"""What fault tests share. Without asking: each is audited, and its failure leaves evidence.

A `site` is a set of nodes on the run's own database, or on a PostgreSQL server of the test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker, Settings

from tests.faults import auditor, database
from tests.faults.harness import QUICK, Site
from tests.faults.proxy import Proxy
from tests.faults.seed import SEED
from tests.services import Server, postgres_server, redis_server
from tests.services.mariadb_server import fresh_database as fresh_mariadb
from tests.services.plugin import provide
from tests.services.postgres_server import fresh_database


@pytest.fixture(autouse=True, scope="session")
def _database_access(django_db_blocker: DjangoDbBlocker) -> None:
    database.blocker = django_db_blocker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Before anything is torn down: what was promised must hold now."""
    try:
        yield
    except Exception as error:
        auditor.keep_evidence(error)
        raise
    auditor.examine_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("faults", f"FAULTS_SEED={SEED}"))
    return report


def as_settings(environment: dict[str, str]) -> dict[str, Any]:
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
    settings.SYNC_SCHEDULER = as_settings(QUICK)
    made = Site(tmp_path)
    yield made
    made.close()


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
    settings.SYNC_SCHEDULER = as_settings(site.environment)


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
    settings.SYNC_SCHEDULER = as_settings(QUICK)
    url = postgres_server.fresh_database(own_postgres)
    made = Site(tmp_path, {"TEST_DATABASE": "postgres", "TEST_DATABASE_URL": url})
    with django_db_blocker.unblock(), database.connected_to(url):
        call_command("migrate", verbosity=0)
        yield made
        made.close()


@pytest.fixture
def full_site(
    postgres_server: Server,
    own_redis: Server,
    tmp_path: Path,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
) -> Generator[Site, None, None]:
    """What a large site runs: PostgreSQL, and a Redis that the test may mistreat."""
    url = fresh_database(postgres_server)
    made = Site(
        tmp_path,
        {
            "TEST_DATABASE": "postgres",
            "TEST_DATABASE_URL": url,
            "SYNC_SCHEDULER_REDIS_URL": own_redis.url,
        },
    )
    settings.SYNC_SCHEDULER = as_settings(made.environment)
    with django_db_blocker.unblock(), database.connected_to(url):
        call_command("migrate", verbosity=0)
        yield made
        made.close()


@pytest.fixture
def database_proxy(full_site: Site, postgres_server: Server) -> Generator[Proxy, None, None]:
    """Between the nodes of `full_site` and PostgreSQL; this process looks past it."""
    with Proxy(postgres_server.port, name="postgres") as proxy:
        url = full_site.environment["TEST_DATABASE_URL"]
        full_site.environment["TEST_DATABASE_URL"] = proxy.url(url)
        yield proxy


@pytest.fixture
def redis_proxy(
    full_site: Site, own_redis: Server, settings: Settings
) -> Generator[Proxy, None, None]:
    """Between Redis and everybody: the nodes of `full_site`, and this process when it submits."""
    with Proxy(own_redis.port, name="redis") as proxy:
        _use_redis(full_site, proxy.url(own_redis.url), settings)
        yield proxy


@pytest.fixture
def mariadb_site(
    mariadb_server: Server,
    tmp_path: Path,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
) -> Generator[Site, None, None]:
    """Nodes on MariaDB, where a dispatch is a transaction of several statements."""
    settings.SYNC_SCHEDULER = as_settings(QUICK)
    url = fresh_mariadb(mariadb_server)
    made = Site(tmp_path, {"TEST_DATABASE": "mysql", "TEST_DATABASE_URL": url})
    with django_db_blocker.unblock(), database.connected_to(url):
        call_command("migrate", verbosity=0)
        yield made
        made.close()
