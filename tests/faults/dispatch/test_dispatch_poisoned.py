"""Schedules that cannot be dispatched stand among many that can."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import psycopg
import pytest

from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_epochs_only_grow
from tests.services.server import Server, wait_until

QUICK = {"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.1, "MAX_DISPATCH_FAILURES": 3}
# What is written into the row behind everybody's back, and what its error then says.
POISONS = {
    "zone": ("timezone = 'Mars/Olympus'", "Mars/Olympus"),
    "handler": ("job = 'tests.vanished'", "tests.vanished"),
    "raises": ("job = 'tests.picky'", "LookupError: no such tenant"),
}


@pytest.mark.parametrize(
    ("schedules", "of_each"), [(50, 2), pytest.param(200, 5, marks=pytest.mark.slow)]
)
def test_poisoned_and_locked_schedules_cost_only_themselves(
    postgres_server: Server, own_redis: Server, tmp_path: Path, schedules: int, of_each: int
) -> None:  # A6, A8, A14; L5, faults A11
    healthy = schedules - (len(POISONS) + 1) * of_each
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        template = crowd.register(cluster, "good-", overlap="concurrent")
        crowd.copy(cluster, template, healthy - 1, "good-")
        crowd.copy(cluster, template, of_each, "locked-")
        for name, (poison, _) in POISONS.items():
            crowd.copy(cluster, template, of_each, f"bad-{name}-")
            cluster.execute(
                f"UPDATE sync_scheduler_schedule SET {poison} WHERE name LIKE %s || '%%'",
                f"bad-{name}-",
            )
        first = cluster.value("SELECT DATE_TRUNC('second', CLOCK_TIMESTAMP())")
        first += dt.timedelta(seconds=4)
        crowd.set_due(cluster, first)
        with psycopg.connect(cluster.url) as holder:
            holder.execute(
                "SELECT id FROM sync_scheduler_schedule WHERE name LIKE 'locked-%' FOR UPDATE"
            )
            cluster.start()
            cluster.start()
            cluster.await_leader()
            wait_until(
                lambda: letters(cluster) >= len(POISONS) * of_each,
                seconds=60,
                what="the poisoned slots are dead letters",
                every=0.1,
            )
            assert (
                cluster.value(
                    "SELECT COUNT(*) FROM sync_scheduler_run WHERE schedule_name LIKE 'locked-%%'"
                )
                == 0
            )
            until = cluster.value("SELECT CLOCK_TIMESTAMP()")
        # Released, they make up for what they owe.
        wait_until(
            lambda: (
                cluster.value(
                    "SELECT MIN(next_run_at) FROM sync_scheduler_schedule"
                    " WHERE name NOT LIKE 'bad-%%'"
                )
                > until
            ),
            seconds=60,
            what="everything that can be dispatched has been",
        )
        owed = int((until - first).total_seconds()) + 1
        for name in ("good", "locked"):
            rows = cluster.query(
                "SELECT schedule_name, COUNT(*), COUNT(DISTINCT slot) FROM sync_scheduler_run"
                " WHERE schedule_name LIKE %s || '-%%' AND slot <= %s AND status = 'submitted'"
                " GROUP BY schedule_name",
                name,
                until,
            )
            assert len(rows) == (healthy if name == "good" else of_each)
            assert {(count, slots) for _, count, slots in rows} == {(owed, owed)}
        # What was due before anybody led is late for another reason.
        since = cluster.value("SELECT MAX(started_at) FROM sync_scheduler_term")
        lag = crowd.lag(cluster, 0.99, "good-", since)
        figures.add(
            f"A11 {schedules} schedules",
            slots=healthy * owed,
            lost=0,
            duplicated=0,
            note=f"lag p99 {lag:.2f} s; {len(POISONS) * of_each} poisoned, {of_each} locked",
        )
        assert lag <= bound(2, beside_others=15)
        for name, (_, word) in POISONS.items():
            found = cluster.query(
                "SELECT schedule_name, error, reason FROM sync_scheduler_deadletter"
                " WHERE schedule_name LIKE %s || '%%'",
                f"bad-{name}-",
            )
            assert len({schedule for schedule, *_ in found}) == of_each
            assert all(word in error for _, error, _ in found), found[:2]
        assert_epochs_only_grow(cluster)


def letters(cluster: Cluster) -> int:
    return int(cluster.value("SELECT COUNT(DISTINCT schedule_name) FROM sync_scheduler_deadletter"))
