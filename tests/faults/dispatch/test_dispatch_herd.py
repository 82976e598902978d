"""Thousands of schedules are due in the same second."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from sync_scheduler import clock
from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster
from tests.services.server import Server, wait_until

# Whoever waits for the processor for a second is not to lose the lead over it.
QUICK = {"LEADER_LEASE": bound(1, beside_others=8), "LEADER_HEARTBEAT": 0.1}


def hourly() -> str:
    """A rule whose own slots are half an hour away: what is due here is what the test says."""
    minute = (clock.now().minute + 30) % 60
    return f"cron('{minute} * * * *', tz='UTC')"


@pytest.mark.parametrize("schedules", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_herd_is_dispatched_once_and_costs_nobody_the_lead(
    postgres_server: Server, own_redis: Server, tmp_path: Path, schedules: int
) -> None:  # A1, A2, A7; faults A9
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        template = crowd.register(cluster, "herd-", hourly(), overlap="concurrent")
        crowd.copy(cluster, template, schedules - 1, "herd-")
        for _ in range(2):
            cluster.start()
        cluster.await_leader()
        epoch = cluster.epoch()
        for _ in range(3):
            due = cluster.value("SELECT DATE_TRUNC('second', CLOCK_TIMESTAMP())")
            due += dt.timedelta(seconds=2)
            before = cluster.value("SELECT COUNT(*) FROM sync_scheduler_run")
            # Behind the dispatcher's back: it finds them by its own looking.
            crowd.set_due(cluster, due)
            wait_until(
                lambda before=before: (  # type: ignore[misc]
                    cluster.value("SELECT COUNT(*) FROM sync_scheduler_run") - before >= schedules
                ),
                seconds=60,
                what="the whole herd is dispatched",
                every=0.1,
            )

        runs = cluster.query(
            "SELECT COUNT(*), COUNT(DISTINCT (schedule_name, slot)),"
            " COUNT(*) FILTER (WHERE status = 'submitted') FROM sync_scheduler_run"
        )
        assert runs == [(3 * schedules, 3 * schedules, 3 * schedules)]
        assert cluster.epoch() == epoch
        lag = crowd.lag(cluster, 0.99)
        figures.add(
            f"A9 {schedules} schedules",
            slots=3 * schedules,
            lost=0,
            duplicated=0,
            note=f"lag p99 {lag:.2f} s, max {crowd.lag(cluster, 1):.2f} s",
        )
        assert lag <= bound(5, beside_others=30)
