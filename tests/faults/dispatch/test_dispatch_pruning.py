"""A mountain of history is pruned while slots are dispatched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import figures
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_every_second_once
from tests.services.server import Server, wait_until

OLD, ACTIVE, SCHEDULES = 200_000, 1_000, 20
QUICK = {
    **{"LEADER_LEASE": 2, "LEADER_HEARTBEAT": 0.2},
    # Pruning goes on with each round of housekeeping, a second at a stretch.
    **{"PRUNE_INTERVAL": 1, "SWEEP_INTERVAL": 0.5, "RECONCILE_INTERVAL": 0.5},
}


def pile_up(cluster: Cluster) -> None:
    """Runs that ended long ago with an attempt each, and some as old that have not ended."""
    columns = [
        name
        for (name,) in cluster.query(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_name = 'sync_scheduler_run'"
        )
    ]
    old = {
        "id": "GEN_RANDOM_UUID()",
        "status": "CASE WHEN n <= %s THEN 'completed' ELSE 'submitted' END",
        "finished_at": "CASE WHEN n <= %s THEN NOW() - INTERVAL '8 days' * (1 + RANDOM()) END",
        "submitted_at": "NOW() - INTERVAL '30 days'",
        "run_at": "NOW() + INTERVAL '1 day'",
    }
    values = ", ".join(old.get(name, f'r."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    cluster.run("from tests.testapp import jobs\njobs.noop.using(delay=3600).submit()")
    numbers = [OLD for name in columns if "%s" in old.get(name, "")]
    cluster.execute(
        f"INSERT INTO sync_scheduler_run ({names}) SELECT {values}"
        " FROM sync_scheduler_run r, GENERATE_SERIES(1, %s) AS n",
        *numbers,
        OLD + ACTIVE,
    )
    cluster.execute(
        "INSERT INTO sync_scheduler_attempt"
        " (run_id, number, node, started_at, finished_at, outcome, error, traceback)"
        " SELECT id, 1, 'n', submitted_at, finished_at, 'completed', '', ''"
        " FROM sync_scheduler_run WHERE status = 'completed'"
    )
    cluster.execute("ANALYZE")


@pytest.mark.slow
def test_pruning_two_hundred_thousand_runs_delays_no_slot(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # B10; H-1, faults A23
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        pile_up(cluster)
        name = cluster.url.rpartition("/")[2]
        cluster.execute(f'ALTER DATABASE "{name}" SET log_min_duration_statement = 1000')
        before = len(postgres_server.log.read_text(errors="replace"))
        for _ in range(2):
            cluster.start()
        cluster.await_leader()
        epoch = cluster.epoch()
        cluster.register_seconds(SCHEDULES, overlap="concurrent")
        wait_until(
            lambda: (
                not cluster.value(
                    "SELECT EXISTS (SELECT 1 FROM sync_scheduler_run WHERE status = 'completed')"
                )
            ),
            seconds=240,
            what="the old Runs are gone",
            every=0.5,
        )
        seen = cluster.value("SELECT COUNT(*) FROM sync_scheduler_run WHERE trigger = 'slot'")
        left = cluster.value(
            "SELECT COUNT(*) FROM sync_scheduler_run WHERE trigger = 'submit'"
            " AND status = 'submitted'"
        )
        attempts = cluster.value("SELECT COUNT(*) FROM sync_scheduler_attempt")
        log = postgres_server.log.read_text(errors="replace")[before:]
        slow = [line for line in log.splitlines() if "duration: " in line]
        lag = crowd.lag(cluster, 0.99)
        figures.add(
            "A23",
            slots=seen,
            runs=OLD,
            lost=0,
            duplicated=0,
            note=f"lag p99 {lag:.2f} s, max {crowd.lag(cluster, 1):.2f} s;"
            f" {len(slow)} statements longer than 1 s",
        )

        # The one that all were copied from has not ended either.
        assert (left, attempts) == (ACTIVE + 1, 0)
        assert_every_second_once(cluster, schedules=SCHEDULES, at_least=10)
        assert cluster.epoch() == epoch
        assert not slow
        assert lag <= 2
