"""How soon another node leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.bounds import bound
from tests.faults.dispatch.cluster import Cluster
from tests.services.server import Server, wait_until

# Longer than anybody is waited for here.
LONG = 120.0


@pytest.mark.parametrize("mode", ["redis", "embedded"])
def test_a_killed_leader_is_replaced_within_one_and_a_half_leases(
    postgres_server: Server, own_redis: Server, tmp_path: Path, mode: str
) -> None:  # A2, promise 5; faults A3b
    lease = 4.0
    with Cluster(
        postgres=postgres_server,
        redis=own_redis if mode == "redis" else None,
        folder=tmp_path,
        settings={"LEADER_LEASE": lease, "LEADER_HEARTBEAT": 0.4},
    ) as cluster:
        followers = [cluster.start() for _ in range(2)]
        cluster.await_leader()
        for _ in followers:
            wait_until(
                lambda: all("started" in m.log.read_text() for m in cluster.members),
                seconds=60,
                what="all have started",
            )
        for _ in range(2):
            epoch, leader = cluster.epoch(), cluster.await_leader()
            leader.kill()
            killed = cluster.value("SELECT CLOCK_TIMESTAMP()")
            cluster.start()
            wait_until(
                lambda epoch=epoch: cluster.epoch() > epoch,  # type: ignore[misc]
                seconds=60,
                what="the next term",
            )
            since = cluster.value("SELECT since FROM sync_scheduler_leader")
            promised = bound(1.5, beside_others=4) * lease
            assert (since - killed).total_seconds() <= promised
            wait_until(
                lambda: "started" in cluster.members[-1].log.read_text(),
                seconds=60,
                what="the new one has started",
            )


@pytest.mark.parametrize("mode", ["redis", "embedded"])
def test_a_leader_that_stops_gracefully_is_replaced_at_once(
    postgres_server: Server, own_redis: Server, tmp_path: Path, mode: str
) -> None:  # A10
    with Cluster(
        postgres=postgres_server,
        redis=own_redis if mode == "redis" else None,
        folder=tmp_path,
        settings={"LEADER_LEASE": LONG, "LEADER_HEARTBEAT": 1, "MISFIRE_GRACE": 3 * LONG},
    ) as cluster:
        cluster.start()
        leader = cluster.await_leader()
        cluster.start()
        wait_until(
            lambda: "started" in cluster.members[-1].log.read_text(),
            seconds=60,
            what="the second one has started",
        )
        assert leader.end(60) == 0
        cluster.await_leader(but=leader)

        rows = cluster.query("SELECT reason FROM sync_scheduler_term WHERE epoch = 1")
        assert rows == [("resigned",)]
