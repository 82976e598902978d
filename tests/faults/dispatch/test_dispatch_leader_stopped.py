"""A leader is frozen for longer than its lease and wakes up believing that it leads."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults.dispatch.cluster import Cluster
from tests.faults.dispatch.slots import assert_every_second_once
from tests.services.server import Server, wait_until

LEASE = 1.0
QUICK = {"LEADER_LEASE": LEASE, "LEADER_HEARTBEAT": 0.1}


def test_a_frozen_leader_dispatches_nothing_when_it_wakes(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # A2, promise 1; L2, faults A3
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        for _ in range(2):
            cluster.start()
        cluster.await_leader()
        cluster.register_seconds(50, overlap="concurrent")
        for round_number in range(6):
            # At another moment of the second each time, so that a tick is hit now and then.
            time.sleep(1 + round_number / 6)
            leader = cluster.await_leader()
            leader.freeze()
            try:
                # It may have lost the lead just before, on a busy machine.
                cluster.await_leader(but=leader)
                time.sleep(3 * LEASE)
            finally:
                leader.thaw()
            assert leader.is_running
        until = cluster.value("SELECT CLOCK_TIMESTAMP()")
        wait_until(
            lambda: cluster.value("SELECT MIN(next_run_at) FROM sync_scheduler_schedule") > until,
            seconds=60,
            what="everything due has been dispatched",
        )

        assert_every_second_once(cluster, schedules=50, at_least=20)


def test_what_was_changed_while_the_leader_was_frozen_is_respected(
    postgres_server: Server, own_redis: Server, tmp_path: Path
) -> None:  # A10, L14; faults A15
    with Cluster(
        postgres=postgres_server, redis=own_redis, folder=tmp_path, settings=QUICK
    ) as cluster:
        cluster.start()
        leader = cluster.await_leader()
        cluster.register_seconds(40, overlap="concurrent")
        for round_number in range(3):
            first = round_number * 12
            time.sleep(2 + round_number / 3)
            leader.freeze()
            try:
                time.sleep(1.5)
                cluster.run(
                    "from sync_scheduler import cron\n"
                    "from sync_scheduler.models import Schedule\n"
                    f"for i in range({first}, {first + 4}):\n"
                    "    Schedule.objects.register(f'second-{i:03d}', job='tests.noop',"
                    " rule=cron('0 0 1 1 *', tz='UTC'), overlap='concurrent')\n"
                    f"for i in range({first + 4}, {first + 8}):\n"
                    "    one = Schedule.objects.get(name=f'second-{i:03d}')\n"
                    "    one.enabled = False\n"
                    "    one.save()\n"
                    f"for i in range({first + 8}, {first + 12}):\n"
                    "    assert Schedule.objects.unregister(f'second-{i:03d}')\n"
                )
                committed = cluster.value("SELECT CLOCK_TIMESTAMP()")
                time.sleep(1)
            finally:
                leader.thaw()
            # The others go on, which also shows that the leader is at work again.
            wait_until(
                lambda committed=committed: (  # type: ignore[misc]
                    cluster.value(
                        "SELECT COUNT(*) FROM sync_scheduler_run"
                        " WHERE schedule_name = 'second-039' AND slot > %s",
                        committed,
                    )
                    >= 2
                ),
                seconds=60,
                what="the untouched schedules go on",
            )
            wrong = cluster.query(
                "SELECT schedule_name, slot FROM sync_scheduler_run"
                " WHERE schedule_name >= %s AND schedule_name < %s AND submitted_at > %s",
                f"second-{first:03d}",
                f"second-{first + 12:03d}",
                committed,
            )
            assert not wrong
