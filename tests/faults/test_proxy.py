"""The proxy itself: what a fault test does to a connection must really happen to it."""

from __future__ import annotations

import time
from collections.abc import Generator

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults.proxy import COMMIT, INSERT_RUN, Proxy
from tests.services import Server
from tests.services.postgres_server import fresh_database

# Long enough that a busy machine answers in time, and short enough to be waited for.
PATIENCE = 3.0


@pytest.fixture
def database(postgres_server: Server) -> str:
    url = fresh_database(postgres_server)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE sync_scheduler_run (n int)")
    return url


@pytest.fixture
def proxy(postgres_server: Server) -> Generator[Proxy, None, None]:
    with Proxy(postgres_server.port) as made:
        yield made


def count(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT COUNT(*) FROM sync_scheduler_run").fetchone()
    assert row is not None
    return int(row[0])


def test_a_swallowed_commit_has_happened_and_nobody_hears_of_it(
    proxy: Proxy, database: str
) -> None:
    # E1
    with psycopg.connect(proxy.url(database)) as connection:
        connection.execute("INSERT INTO sync_scheduler_run VALUES (1)")
        proxy.behave(swallow=COMMIT)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert count(database) == 1
    assert proxy.counts["swallowed"] == 1


def test_a_swallowed_statement_outside_of_a_transaction_has_happened(
    proxy: Proxy, database: str
) -> None:
    # E1
    with psycopg.connect(proxy.url(database), autocommit=True) as connection:
        proxy.behave(swallow=INSERT_RUN)
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            connection.execute('INSERT INTO "sync_scheduler_run" VALUES (1)')
    assert count(database) == 1


def test_a_reset_breaks_every_connection_and_new_ones_work(proxy: Proxy, database: str) -> None:
    with psycopg.connect(proxy.url(database), autocommit=True) as connection:
        assert proxy.reset_all() == 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert count(proxy.url(database)) == 0


def test_a_share_of_requests_breaks_its_connection(proxy: Proxy, database: str) -> None:
    broken = 0
    for _ in range(20):
        # Only the one request is at risk: nobody would notice that a goodbye was broken.
        with psycopg.connect(proxy.url(database), autocommit=True) as connection:
            proxy.behave(reset_share=0.5)
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                broken += 1
            proxy.heal()
    assert broken == proxy.counts["resets"]
    assert 0 < broken < 20


def test_who_is_refused_cannot_connect(proxy: Proxy, database: str) -> None:
    proxy.behave(refuse=True)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(proxy.url(database), connect_timeout=5)


def test_a_black_hole_lets_nothing_through_until_it_is_healed(redis_server: Server) -> None:
    with (
        Proxy(redis_server.port) as proxy,
        redis.Redis(
            port=proxy.port, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
        ) as client,
    ):
        assert client.ping()
        proxy.behave(black_hole=True)
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.heal()
        assert client.ping()


def test_a_delay_comes_before_every_answer(redis_server: Server) -> None:
    with Proxy(redis_server.port) as proxy, redis.Redis(port=proxy.port) as client:
        client.ping()
        proxy.behave(delay=0.3)
        began = time.monotonic()
        client.ping()
        assert time.monotonic() - began >= 0.3
