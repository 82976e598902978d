"""Redis is flushed, stopped or frozen; slots come late at most, never twice, never not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.faults.bounds import bound
from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_every_second_once
from tests.services.server import Server, wait_until

QUICK = {"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.1}


def settle(cluster: Cluster) -> None:
    """Wait until everything that is due by now has been dispatched."""
    until = cluster.value("SELECT CLOCK_TIMESTAMP()")
    wait_until(
        lambda: cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule") > until,
        seconds=60,
        what="everything due has been dispatched",
    )


@pytest.mark.slow
def test_flushing_redis_every_two_seconds_changes_nothing(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # C4, promise 4; faults A4
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        for _ in range(3):
            cluster.start()
        cluster.await_leader()
        cluster.register_seconds(50, overlap="concurrent")
        with redis.Redis(host=own_redis.host, port=own_redis.port) as client:
            for _ in range(10):
                time.sleep(2)
                client.flushall()
        settle(cluster)

        assert_every_second_once(cluster, schedules=50, at_least=20)


# The others are like it; A4 at the top of this folder kills Redis in every run.
@pytest.mark.parametrize(
    "how",
    [
        pytest.param("stopped", marks=pytest.mark.slow),
        "frozen",
        pytest.param("killed and empty", marks=pytest.mark.slow),
    ],
)
def test_fifteen_seconds_without_redis_delay_no_slot_by_more_than_five(
    postgres_server: Server, own_redis: Server, tmp_path: Path, how: str
) -> None:  # B11, promise 4; faults A4
    away: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "stopped": (own_redis.stop, own_redis.launch),
        "frozen": (own_redis.pause, own_redis.resume),
        "killed and empty": (own_redis.kill, own_redis.launch),
    }
    go, come_back = away[how]
    with Cluster(postgres=postgres_server, redis=own_redis, folder=tmp_path) as cluster:
        for _ in range(2):
            cluster.start()
        cluster.await_leader()
        cluster.register_seconds(20, overlap="concurrent")
        time.sleep(3)
        go()
        time.sleep(15)
        come_back()
        time.sleep(3)
        settle(cluster)

        assert_every_second_once(cluster, schedules=20, at_least=20)
        late = cluster.value(
            "SELECT MAX(EXTRACT(EPOCH FROM submitted_at - slot)) FROM sync_scheduler_run"
        )
        assert late <= bound(5, beside_others=20)


def test_a_leader_that_dies_while_redis_is_away_is_replaced(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # A2, B11; faults A4
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        for _ in range(2):
            cluster.start()
        leader = cluster.await_leader()
        cluster.register_seconds(5, overlap="concurrent")
        time.sleep(2)
        own_redis.stop()
        leader.kill()
        cluster.await_leader(but=leader)
        time.sleep(2)
        settle(cluster)

        assert_every_second_once(cluster, schedules=5, at_least=4)
