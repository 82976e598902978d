"""PostgreSQL crashes, goes away and turns read-only under nodes that dispatch and work."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.harness import Site, pause
from tests.faults.worker import outage
from tests.services import Server, postgres_server
from tests.services.plugin import provide
from tests.testapp import jobs


@pytest.fixture(scope="module")
def own_postgres() -> Generator[Server, None, None]:
    with provide("postgres", lambda: postgres_server.start(settings=outage.DURABLE)) as server:
        yield server


@pytest.mark.slow
def test_crashes_and_an_absence_of_postgresql_lose_and_repeat_nothing(
    postgres_site: Site, own_postgres: Server, tmp_path: Path
) -> None:
    # B11, B16; W12, W21, faults A9b
    site, gate = postgres_site, tmp_path / "open"
    # Longer than any of the outages: whoever lives through them keeps its Run.
    site.environment["SYNC_SCHEDULER_NODE_LEASE"] = "20"
    nodes = [site.start("--processes=2", "--threads=3") for _ in range(2)]
    outage.load(site)
    living = [jobs.until_file.submit(path=str(gate)) for _ in range(2)]
    site.wait(lambda: sum(site.starts(run) for run in living) == 2, "both are running")
    atomic, took = outage.submit(), []
    for _ in range(3):
        own_postgres.kill()
        own_postgres.launch()
        outage.reconnect()
        took.append(outage.wait_recovered(site))
        atomic += outage.submit()
    own_postgres.stop()
    pause(2 * float(site.environment["SYNC_SCHEDULER_LEADER_LEASE"]))
    own_postgres.launch()
    outage.reconnect()
    took.append(outage.wait_recovered(site))
    gate.touch()
    site.wait_ended(living)

    assert all(node.is_running for node in nodes)
    for run in living:
        run.refresh_from_db()
        assert (run.status, site.starts(run)) == ("completed", 1)
    slots = outage.assert_nothing_lost(site, atomic)
    figures.add("A9b", slots=slots, runs=len(atomic), kills=4, lost=0, duplicated=0, takeovers=took)
    assert max(took) <= bound(10, beside_others=outage.PATIENCE)


@pytest.mark.slow
def test_ten_seconds_of_a_read_only_database_are_waited_out(
    postgres_site: Site, own_postgres: Server
) -> None:
    # B11; W22, faults A9c
    site = postgres_site
    nodes = [site.start("--processes=1", "--threads=3") for _ in range(2)]
    outage.load(site)
    atomic = outage.submit()
    set_read_only(own_postgres, "on")
    try:
        pause(10)
        assert all(node.is_running for node in nodes), site.report()
    finally:
        set_read_only(own_postgres, "off")
    took = outage.wait_recovered(site)

    assert all(node.is_running for node in nodes)
    # Whoever waits says so now and then, not all the time.
    lines = [len(node.output().splitlines()) for node in nodes]
    assert max(lines) < 2000, lines
    slots = outage.assert_nothing_lost(site, atomic)
    figures.add("A9c", slots=slots, runs=len(atomic), lost=0, duplicated=0, takeovers=[took])
    assert took <= bound(5, beside_others=outage.PATIENCE)


def set_read_only(server: Server, value: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")
