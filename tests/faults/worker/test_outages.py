"""Servers that stop, freeze, forget or refuse while nodes work with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import redis

from sync_scheduler.models import Run
from tests.faults.harness import QUICK, Site, audit, pause
from tests.services import Server, pgbouncer, redis_cluster, redis_server
from tests.services.plugin import provide
from tests.testapp import jobs
from tests.testapp.models import Counter, Effect

UseRedis = Callable[[Site, str], None]


def test_runs_go_on_while_redis_is_down_and_after_it_is_back(
    site: Site, use_redis: UseRedis, own_redis: Server
) -> None:
    # B11, C3
    use_redis(site, own_redis.url)
    node = site.start("--no-dispatch", "--processes=1")
    before = [jobs.noted.submit() for _ in range(5)]
    site.wait_ended(before)
    own_redis.kill()
    during = [jobs.noted.submit() for _ in range(5)]
    site.wait_ended(during)
    own_redis.launch()
    site.wait(lambda: "Redis answers again" in node.output(), "the node has noticed")
    after = [jobs.noted.submit() for _ in range(5)]
    site.wait_ended(after)
    audit(site, plain=[*before, *during, *after])
    assert {run.status for run in Run.objects.all()} == {"completed"}
    assert node.stop() == 0


def test_a_frozen_redis_is_as_good_as_none(
    site: Site, use_redis: UseRedis, own_redis: Server
) -> None:
    # B11; faults A7
    use_redis(site, own_redis.url)
    site.start("--no-dispatch", "--processes=1")
    own_redis.pause()
    runs = [jobs.noted.submit() for _ in range(5)]
    site.wait_ended(runs)
    own_redis.resume()
    audit(site, plain=runs)


def test_a_redis_that_is_wiped_again_and_again_loses_and_repeats_nothing(
    redis_site: Site,
) -> None:
    # C4; faults A4
    redis_site.start("--processes=1", "--threads=2")
    server = redis.Redis.from_url(redis_site.environment["SYNC_SCHEDULER_REDIS_URL"])
    runs: list[Run] = []
    for _ in range(15):
        runs += jobs.noted.submit_many([{}] * 20)
        server.flushall()
        runs += [jobs.noted.using(delay=0.1).submit() for _ in range(3)]
    server.flushall()
    redis_site.wait_ended(runs, 60)
    audit(redis_site, plain=runs)
    assert [redis_site.starts(run) for run in runs] == [1] * len(runs)


def test_stale_and_foreign_ids_in_redis_start_nothing(redis_site: Site) -> None:
    # C4; W23
    node = redis_site.start("--no-dispatch", "--processes=1")
    run = jobs.noted.submit()
    redis_site.wait_ended([run])
    future = jobs.noted.using(delay=3600).submit()
    server = redis.Redis.from_url(redis_site.environment["SYNC_SCHEDULER_REDIS_URL"])
    ready = "sync_scheduler:{default}:ready:default"
    junk = dict.fromkeys(
        [run.id.hex.encode(), future.id.hex.encode(), b"0" * 32, b"x" * 5000, b"\xff"], 0
    )
    for _ in range(3):
        server.zadd(ready, junk)
        server.publish("sync_scheduler:{default}:control", b"\xff\xfe")
        server.publish("sync_scheduler:{default}:control", "cancel:nobody")
        redis_site.wait(lambda: server.zcard(ready) == 0, "it was taken")
    behind = jobs.noted.submit()
    redis_site.wait_ended([behind])
    future.refresh_from_db()
    assert (future.status, redis_site.starts(run), redis_site.starts(future)) == ("submitted", 1, 0)
    assert node.is_running


def test_a_key_of_another_kind_in_redis_costs_only_time(redis_site: Site) -> None:
    # C4
    redis_site.start("--no-dispatch", "--processes=1")
    server = redis.Redis.from_url(redis_site.environment["SYNC_SCHEDULER_REDIS_URL"])
    server.delete("sync_scheduler:{default}:ready:default")
    server.set("sync_scheduler:{default}:ready:default", "not a sorted set")
    run = jobs.noted.submit()
    redis_site.wait_ended([run])


def test_a_submit_is_picked_up_through_redis_and_not_by_the_poll(redis_site: Site) -> None:
    # C3
    redis_site.start("--no-dispatch", "--processes=1")
    run = jobs.noted.submit()
    redis_site.wait_ended([run])
    # While Redis answers, four seconds or more pass from one poll of the database to the next.
    began = time.monotonic()
    for _ in range(5):
        redis_site.wait_ended([jobs.noted.submit()])
    assert time.monotonic() - began < 12


def test_a_sentinel_fail_over_loses_nothing(site: Site, use_redis: UseRedis) -> None:
    # C8, B11; faults A5
    with (
        provide("redis", redis_server.start) as master,
        redis_server.start(replica_of=master) as replica,
        redis_server.start_sentinel(("main", master)) as sentinel,
    ):
        with redis.Redis(port=sentinel.port, decode_responses=True) as asked:
            site.wait(
                lambda: len(asked.sentinel_slaves("main")) == 1, "the sentinel knows the replica"
            )
            use_redis(site, f"redis+sentinel://127.0.0.1:{sentinel.port}/main/0")
            site.start("--no-dispatch", "--processes=1")
            runs = [jobs.noted.submit() for _ in range(5)]
            site.wait_ended(runs)
            master.kill()
            runs += [jobs.noted.submit() for _ in range(5)]
            site.wait_ended(runs)
            site.wait(
                lambda: asked.sentinel_get_master_addr_by_name("main")[1] == replica.port,
                "the replica was promoted",
                40,
            )
        site.wait(lambda: "Redis answers again" in site.nodes[0].output(), "the node follows")
        runs += [jobs.noted.submit() for _ in range(5)]
        site.wait_ended(runs)
        audit(site, plain=runs)


def test_a_redis_cluster_carries_everything(site: Site, use_redis: UseRedis) -> None:
    # C8
    with provide("redis", redis_server.start):
        cluster = redis_cluster.start()
    try:
        use_redis(site, cluster.url)
        # On a busy machine an answer may take longer than a server that is well should need.
        node = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_REDIS_TIMEOUT="5")
        runs = [jobs.noted.submit() for _ in range(10)]
        runs.append(jobs.noted.using(delay=0.5).submit())
        site.wait_ended(runs)
        running = jobs.wait.submit()
        site.wait_line("start wait")
        assert running.cancel()
        site.wait_line("cancelled wait")
        audit(site, plain=runs)
        assert "cannot be reached" not in node.output()
        cluster.nodes[0].kill()
        more = [jobs.noted.submit() for _ in range(5)]
        site.wait_ended(more)
    finally:
        cluster.close()


def test_postgresql_may_be_restarted_while_nodes_work(
    postgres_site: Site, own_postgres: Server
) -> None:
    # B11; W21, faults A9b
    site = postgres_site
    node = site.start("--processes=2", "--threads=2")
    Counter.objects.create(name="all")
    plain = jobs.noted.submit_many([{}] * 100)
    atomic = jobs.atomic_count.submit_many([{"name": "all"}] * 100)
    long = jobs.wait.submit(seconds=3)
    awaiting = jobs.async_rows.submit(name="before")
    site.wait_line("start wait")
    site.wait_ended([awaiting])
    own_postgres.restart()
    _reconnect()
    site.wait_ended([*plain, long], 60)
    afterwards = [jobs.async_rows.submit(name="after"), jobs.noted.submit()]
    site.wait_ended([*atomic, *afterwards], 60)
    assert node.is_running
    long.refresh_from_db()
    assert (long.status, site.starts(long)) == ("completed", 1)
    # An atomic run whose connection broke has failed its only attempt, and left nothing.
    audit(site, atomic=atomic)
    assert Counter.objects.get().value == Effect.objects.filter(name="all").count()
    for run in afterwards:
        run.refresh_from_db()
        assert run.status == "completed", run.error
    assert node.stop() == 0


def test_a_node_waits_out_a_postgresql_that_is_away_for_longer_than_a_lease(
    postgres_site: Site, own_postgres: Server, tmp_path: Path
) -> None:
    # B11; W12, faults A9b
    site = postgres_site
    gate = tmp_path / "open"
    node = site.start("--processes=1")
    run = jobs.until_file.submit(path=str(gate))
    site.wait_line("start until_file")
    own_postgres.stop()
    site.wait(lambda: "cannot be used" in node.output(), "the node has noticed")
    gate.touch()
    site.wait(lambda: "outcomes wait" in node.output(), "its outcome waits")
    pause(float(QUICK["SYNC_SCHEDULER_NODE_LEASE"]))
    own_postgres.launch()
    _reconnect()
    site.wait_ended([run])
    run.refresh_from_db()
    assert (run.status, run.result, site.starts(run)) == ("completed", "seen", 1)
    assert node.is_running


def test_a_database_that_is_read_only_for_a_while_is_waited_for(
    postgres_site: Site, own_postgres: Server, tmp_path: Path
) -> None:
    # B11; W22, faults A9c
    site = postgres_site
    gate = tmp_path / "open"
    node = site.start("--processes=1")
    run = jobs.until_file.submit(path=str(gate))
    site.wait_line("start until_file")
    _read_only(own_postgres, "on")
    try:
        gate.touch()
        site.wait(lambda: "outcomes wait" in node.output(), "its outcome waits")
    finally:
        _read_only(own_postgres, "off")
    site.wait_ended([run])
    after = jobs.noted.submit()
    site.wait_ended([after])
    run.refresh_from_db()
    assert (run.status, run.result, site.starts(run)) == ("completed", "seen", 1)
    assert node.is_running


def _read_only(server: Server, value: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")


def _reconnect() -> None:
    """This process was connected as well."""
    from django.db import connections

    connections["default"].close()


def test_everything_works_through_pgbouncer_in_transaction_mode(
    postgres_site: Site, own_postgres: Server
) -> None:
    # B11; W24
    site = postgres_site
    with provide("pgbouncer", lambda: pgbouncer.start(own_postgres, pool_size=3)) as pooler:
        url = site.environment["TEST_DATABASE_URL"]
        through = url.replace(f":{own_postgres.port}/", f":{pooler.port}/")
        node = site.start("--processes=2", "--threads=2", TEST_DATABASE_URL=through)
        Counter.objects.create(name="all")
        plain = jobs.noted.submit_many([{}] * 50)
        atomic = jobs.atomic_count.submit_many([{"name": "all"}] * 50)
        bad = jobs.fail.submit()
        others = [jobs.steps.submit(), jobs.async_rows.submit(name="rows"), bad]
        limited = jobs.rate.submit_many([{}] * 4)
        site.wait_ended([*plain, *atomic, *others, *limited], 60)
        running = jobs.wait.submit()
        site.wait_line("start wait", str(running.id))
        assert running.cancel()
        site.wait_line("cancelled wait")
        assert Counter.objects.get().value == 50
        audit(site, atomic=atomic, plain=plain)
        assert node.stop() == 0
        told = [line for line in node.output().splitlines() if f"Run {bad.id} of" not in line]
        assert not [line for line in told if "rror" in line], node.output()


def test_the_real_thing_on_postgresql_and_redis_together(
    postgres_site: Site, use_redis: UseRedis, own_redis: Server
) -> None:
    # B11, B16
    site = postgres_site
    use_redis(site, own_redis.url)
    node = site.start("--processes=2", "--threads=2")
    Counter.objects.create(name="all")
    runs = jobs.atomic_count.submit_many([{"name": "all"}] * 200)
    own_redis.restart()
    runs += jobs.atomic_count.submit_many([{"name": "all"}] * 200)
    for child in node.children():
        child.kill()
    site.wait_ended(runs, 60)
    assert Counter.objects.get().value == 400
    audit(site, atomic=runs)
