"""Nobody has dispatched for a year; then somebody does."""

from __future__ import annotations

import datetime as dt
from itertools import product
from pathlib import Path

from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster
from tests.services.server import Server, wait_until

YEAR = dt.timedelta(days=365)
RULES = {"minute": "cron('* * * * *', tz='Europe/Berlin')", "second": crowd.SECONDS}
GRACE = 60
BOUND = 100


def test_a_year_without_a_dispatcher_is_made_up_for_within_bounds(
    postgres_server: Server, tmp_path: Path
) -> None:  # A4, A15; L12, L13, faults A14
    lease = 5.0
    with Cluster(
        postgres=postgres_server, folder=tmp_path, settings={"LEADER_LEASE": lease}
    ) as cluster:
        began = cluster.value("SELECT DATE_TRUNC('minute', CLOCK_TIMESTAMP())") - YEAR
        policies = ("skip", "catch_up_one", "catch_up_all")
        crowd.register_all(
            cluster,
            {
                f"{rule}-{misfire}": (RULES[rule], {"misfire": misfire, "overlap": "concurrent"})
                for rule, misfire in product(RULES, policies)
            },
        )
        crowd.set_due(cluster, began)
        cluster.start()
        cluster.await_leader()
        since = cluster.value("SELECT since FROM sync_scheduler_leader")
        wait_until(
            lambda: cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule") > since,
            seconds=60,
            what="the schedules have left the past behind",
        )
        # The first tick is shorter than the lease, or the lead would have been lost over it.
        assert cluster.epoch() == 1
        first = cluster.value(
            "SELECT MAX(submitted_at) FROM sync_scheduler_run WHERE slot < %s", since
        )
        took = (first - since).total_seconds()
        assert took <= bound(lease, beside_others=40)
        # Of what was missed: what came due by the way has no bound.
        late = "slot < %s AND schedule_name = %s"
        for rule, misfire in product(RULES, policies):
            name = f"{rule}-{misfire}"
            missed = {"skip": 0, "catch_up_one": 1, "catch_up_all": BOUND}[misfire]
            on_time = GRACE if rule == "second" else 1
            made = cluster.value(
                f"SELECT COUNT(*) FROM sync_scheduler_run WHERE {late} AND status = 'submitted'",
                since,
                name,
            )
            # Slots within the grace are no misfires, and run under every policy.
            assert missed <= made <= missed + on_time + 1, (name, made)
            skipped, rest = cluster.query(
                "SELECT COUNT(*) FILTER (WHERE NOT meta ? 'count'),"
                " SUM((meta->>'count')::int) FILTER (WHERE meta ? 'count')"
                f" FROM sync_scheduler_run WHERE {late} AND status = 'skipped'",
                since,
                name,
            )[0]
            assert skipped <= BOUND, (name, skipped)
            # Nothing vanished without a trace: whatever has no row of its own was counted.
            newest = cluster.value(
                f"SELECT MAX(slot) FROM sync_scheduler_run WHERE {late}", since, name
            )
            step = 60 if rule == "minute" else 1
            expected = (newest - began).total_seconds() // step + 1
            assert made + skipped + rest == expected, name
        figures.add(
            "A14",
            slots=cluster.value("SELECT COUNT(*) FROM sync_scheduler_run"),
            lost=0,
            duplicated=0,
            note=f"a year made up for {took:.2f} s after the term began",
        )
        # Counted above; the auditor would walk through 31 million seconds.
        cluster.excuses["I1"] = "every slot of the year was counted"
