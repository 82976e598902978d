"""The leader dies again and again; no slot is lost and none is dispatched twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_every_second_once
from tests.services.server import Server, wait_until

SCHEDULES = 100
QUICK = {"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.1}


@pytest.mark.parametrize("seconds", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_every_slot_survives_a_leader_killed_every_five_seconds(
    postgres_server: Server, own_redis: Server, tmp_path: Path, seconds: int
) -> None:  # A1, A2, A7, C2, promises 1 and 5; faults A1
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        for _ in range(3):
            cluster.start()
        cluster.await_leader()
        cluster.register_seconds(SCHEDULES, overlap="concurrent")
        began = time.monotonic()
        killed = 0
        # However long a slow machine takes for it.
        while killed < seconds * 15 // 100 or time.monotonic() - began < seconds:
            leader = cluster.await_leader()
            leader.kill()
            killed += 1
            cluster.start()
            time.sleep(5 - (time.monotonic() - began) % 5)
        # The last take-over has to make up for what its predecessor left.
        cluster.await_leader()
        until = cluster.value("SELECT CLOCK_TIMESTAMP()")
        wait_until(
            lambda: cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule") > until,
            seconds=60,
            what="everything due has been dispatched",
        )

        assert_every_second_once(cluster, schedules=SCHEDULES, at_least=seconds)
