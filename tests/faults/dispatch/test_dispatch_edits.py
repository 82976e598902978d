"""Schedules are edited, switched off, removed and made anew while they are being dispatched."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults import figures
from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_epochs_only_grow
from tests.faults.seed import SEED
from tests.services.server import Server, wait_until

QUICK = {"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.1}
SCHEDULES, EDITED, EDITS = 60, 40, 500


@pytest.mark.slow
def test_no_edit_is_lost_and_nothing_runs_after_a_committed_end(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # A2, A3, A10, A17; L14, faults A15
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        for _ in range(2):
            cluster.start()
        cluster.await_leader()
        cluster.register_seconds(SCHEDULES, overlap="concurrent")
        names = [f"second-{i:03d}" for i in range(EDITED)]
        with ThreadPoolExecutor(1) as pool:
            editing = pool.submit(
                cluster.run,
                "from tests.faults.dispatch import editor\n"
                f"editor.main({names!r}, {EDITS}, {SEED!r})\n",
            )
            # Leaders freeze meanwhile: what they decided before must not be written after.
            while not editing.done():
                leader = cluster.await_leader()
                leader.freeze()
                try:
                    time.sleep(0.7)
                finally:
                    leader.thaw()
                time.sleep(0.5)
            report = json.loads(editing.result())
        until = cluster.value("SELECT CLOCK_TIMESTAMP()")
        wait_until(
            lambda: cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule") > until,
            seconds=20,
            what="everything due has been dispatched",
        )

        assert report["lost"] == []
        rows = cluster.query(
            "SELECT schedule_name, slot, submitted_at, status FROM sync_scheduler_run"
        )
        after_the_end = [
            (name, how, slot)
            for name, how, since, until_ in report["spans"]
            for schedule, slot, submitted_at, status in rows
            if schedule == name
            and status != "skipped"
            and dt.datetime.fromisoformat(since) < submitted_at < dt.datetime.fromisoformat(until_)
        ]
        assert not after_the_end
        assert len(report["spans"]) >= 100
        counts = Counter((name, slot) for name, slot, *_ in rows)
        assert not [key for key, number in counts.items() if number > 1]
        _assert_untouched_lost_nothing(cluster)
        figures.add("A15", slots=len(rows), lost=0, duplicated=0, note=f"{EDITS} edits")
        assert_epochs_only_grow(cluster)


def _assert_untouched_lost_nothing(cluster: Cluster) -> None:
    """Whatever happened to the others, those that nobody edited have every slot."""
    rows = cluster.query(
        "SELECT schedule_name, COUNT(*), MIN(slot), MAX(slot),"
        " COUNT(*) FILTER (WHERE status = 'skipped') FROM sync_scheduler_run"
        " WHERE schedule_name >= %s GROUP BY schedule_name",
        f"second-{EDITED:03d}",
    )
    assert len(rows) == SCHEDULES - EDITED
    for name, number, first, last, skipped in rows:
        assert number == (last - first).total_seconds() + 1, name
        assert skipped == 0, name
