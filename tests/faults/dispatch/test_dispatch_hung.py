"""A leader whose renewals go on while its dispatching does not."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults import figures
from tests.faults.dispatch import crowd
from tests.faults.dispatch.cluster import Cluster
from tests.services.server import Server, wait_until

LEASE = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["redis", "embedded"])
def test_a_leader_whose_dispatching_hangs_gives_the_lead_away(
    postgres_server: Server, own_redis: Server, tmp_path: Path, mode: str
) -> None:  # A2; L4, L19, faults A10
    hook = tmp_path / "hangs"
    with Cluster(
        postgres=postgres_server,
        redis=own_redis if mode == "redis" else None,
        folder=tmp_path,
        settings={"LEADER_LEASE": LEASE, "LEADER_HEARTBEAT": 0.1},
    ) as cluster:
        hung = cluster.start(
            environment={
                "DJANGO_SETTINGS_MODULE": "tests.faults.saboteur.settings",
                "SABOTEUR_HANG_FILE": str(hook),
            }
        )
        assert cluster.await_leader() is hung
        other = cluster.start()
        wait_until(lambda: "started" in other.log.read_text(), seconds=60, what="both are there")
        crowd.register(cluster, "second", overlap="concurrent")
        wait_until(lambda: slots(cluster) > 0, seconds=60, what="it dispatches")
        epoch = cluster.epoch()
        hook.touch()
        began = cluster.value("SELECT CLOCK_TIMESTAMP()")
        wait_until(lambda: cluster.epoch() > epoch, seconds=60, what="the lead has moved")
        since = cluster.value("SELECT since FROM sync_scheduler_leader")
        # One second until the next slot hangs it, one lease until that is noticed.
        took = (since - began).total_seconds()
        figures.add(f"A10 {mode}", kills=1, lost=0, duplicated=0, takeovers=[took])
        assert took <= 1 + 3 * LEASE
        assert cluster.await_leader() is other
        (reason,) = cluster.query("SELECT reason FROM sync_scheduler_term WHERE epoch = %s", epoch)
        assert re.search("dispatch loop makes no progress", reason[0])
        # While it hangs it does not lead, and its slots are dispatched by the other.
        seen = slots(cluster)
        wait_until(lambda: slots(cluster) >= seen + 3, seconds=60, what="slots go on")
        assert cluster.leader() is other
        # When it wakes up, it is fit to lead again.
        hook.unlink()
        other.kill()
        cluster.await_leader(but=other)
        seen = slots(cluster)
        wait_until(lambda: slots(cluster) >= seen + 3, seconds=20, what="slots go on again")
        rows = cluster.query("SELECT slot FROM sync_scheduler_run ORDER BY slot")
        gaps = {(b[0] - a[0]).total_seconds() for a, b in pairwise(rows)}
        assert gaps == {1.0}, "a slot was lost or came twice"


def slots(cluster: Cluster) -> int:
    return int(cluster.value("SELECT COUNT(*) FROM sync_scheduler_run WHERE status <> 'skipped'"))
