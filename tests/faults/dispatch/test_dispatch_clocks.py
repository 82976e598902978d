"""Nodes whose clocks are wrong."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.faults import figures
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster, Member
from tests.faults.dispatch.slots import assert_every_second_once
from tests.services.server import Server, wait_until

QUICK = {"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.1}
OFFSETS = {"ten minutes fast": 600, "ten minutes slow": -600, "a year fast": 365 * 86_400}


def start_with_clock(cluster: Cluster, seconds: float) -> Member:
    return cluster.start(
        environment={
            "DJANGO_SETTINGS_MODULE": "tests.faults.saboteur.settings",
            "SABOTEUR_CLOCK_OFFSET": str(seconds),
        }
    )


@pytest.mark.parametrize("mode", ["redis", "embedded"])
@pytest.mark.slow
def test_a_node_with_a_wrong_clock_refuses_to_lead_and_nothing_comes_early_or_is_lost(
    postgres_server: Server, own_redis: Server, tmp_path: Path, mode: str
) -> None:  # A2, A7; L7, L8, faults A12
    with Cluster(
        postgres=postgres_server,
        redis=own_redis if mode == "redis" else None,
        folder=tmp_path,
        settings=QUICK,
    ) as cluster:
        right = cluster.start()
        cluster.await_leader()
        cluster.register_seconds(10, overlap="concurrent")
        wrong = [start_with_clock(cluster, seconds) for seconds in OFFSETS.values()]
        for member in wrong:
            wait_until(
                lambda member=member: "started" in member.log.read_text(),  # type: ignore[misc]
                seconds=60,
                what="it has started",
            )
        # Fail-over between them: all of those left have wrong clocks, then a right one comes.
        for _ in range(2):
            right.kill()
            for member in wrong:
                wait_until(
                    lambda member=member: (  # type: ignore[misc]
                        "does not lead: its clock is" in member.log.read_text()
                    ),
                    seconds=60,
                    what="it refuses to lead, and says why",
                )
            right = cluster.start()
            cluster.await_leader()
            moment = cluster.value("SELECT CLOCK_TIMESTAMP()")
            wait_until(
                lambda moment=moment: (  # type: ignore[misc]
                    cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule")
                    > moment + dt.timedelta(seconds=2)
                ),
                seconds=60,
                what="slots go on",
            )
        holders = {row[0] for row in cluster.query("SELECT holder FROM sync_scheduler_term")}
        assert not {str(m.pid) for m in wrong} & {holder.split(":")[1] for holder in holders}
        early = cluster.value(
            "SELECT COUNT(*) FROM sync_scheduler_run"
            " WHERE submitted_at < slot - INTERVAL '2 seconds' OR slot > CLOCK_TIMESTAMP()"
        )
        assert early == 0
        assert_every_second_once(cluster, schedules=10, at_least=5)
        slots = cluster.value("SELECT COUNT(*) FROM sync_scheduler_run")
        figures.add(f"A12 {mode}", slots=slots, kills=2, lost=0, duplicated=0, note="early 0")


@pytest.mark.slow
def test_a_node_whose_clock_is_a_second_off_leads_by_the_databases_time(
    postgres_server: Server, tmp_path: Path
) -> None:  # L7, faults A12
    with Cluster(postgres=postgres_server, folder=tmp_path, settings=QUICK) as cluster:
        start_with_clock(cluster, 1.5)
        cluster.await_leader()
        crowd.register(cluster, "second", overlap="concurrent")
        wait_until(
            lambda: cluster.value("SELECT COUNT(*) FROM sync_scheduler_run") >= 5,
            seconds=30,
            what="slots are dispatched",
        )
        earliest = cluster.value("SELECT MIN(submitted_at - slot) FROM sync_scheduler_run")
        # Not a slot before its time, although this node's clock said so.
        assert earliest >= -dt.timedelta(seconds=0.5)
