"""Redis is wiped, killed, replaced by a stale copy; slots come late at most."""

from __future__ import annotations

import time

import pytest
import redis

from sync_scheduler.models import Attempt, Run
from tests.faults import figures, ledger, slots
from tests.faults.bounds import bound
from tests.faults.fleet import Fleet
from tests.faults.harness import Site
from tests.faults.proxy import Proxy
from tests.services import Server, redis_server
from tests.testapp import jobs


def cluster(site: Site, purpose: str, *, dispatchers: int, workers: int) -> Fleet:
    fleet = Fleet(site, purpose)
    for _ in range(dispatchers):
        fleet.add("--no-work")
    for _ in range(workers):
        fleet.add("--no-dispatch", "--processes=1", "--threads=2")
    fleet.wait_started()
    return fleet


def report(number: str, coming: slots.Slots, note: str) -> slots.Outcome:
    outcome = coming.outcome()
    figures.add(
        number,
        slots=coming.total,
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        effects=outcome.effects,
        note=f"{note}; dispatch lag p99 {outcome.lag(0.99):.2f} s, max {outcome.lag(1):.2f} s",
    )
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, coming.total)
    return outcome


def wiped_and_killed(site: Site, server: Server, *, schedules: int, wipes: int, away: int) -> None:
    cluster(site, "lost redis", dispatchers=2, workers=2)
    coming = slots.every_second(schedules, 2 * wipes + away + 5)
    with redis.Redis(port=server.port) as client:
        for _ in range(wipes):
            time.sleep(2)
            client.flushall()
    server.kill()
    time.sleep(away)
    server.launch()
    site.wait(coming.are_done, "every slot has had its effect", 60)
    note = f"{wipes} wipes, {away} s without Redis"
    assert report("A4", coming, note).lag(0.99) <= bound(5, beside_others=20)


def test_a_wiped_and_killed_redis_costs_only_time(full_site: Site, own_redis: Server) -> None:
    # faults A4
    # B11, C4
    wiped_and_killed(full_site, own_redis, schedules=20, wipes=4, away=6)


@pytest.mark.slow
def test_two_thousand_slots_survive_twenty_wipes_and_a_killed_redis(
    full_site: Site, own_redis: Server
) -> None:
    # faults A4
    # B11, C4
    wiped_and_killed(full_site, own_redis, schedules=34, wipes=20, away=15)


@pytest.mark.slow
def test_a_stale_replica_that_is_promoted_repeats_nothing(
    full_site: Site, own_redis: Server, redis_proxy: Proxy
) -> None:
    # faults A5
    # B11, C4, C8
    site = full_site
    cluster(site, "promotion", dispatchers=2, workers=2)
    with redis_server.start(replica_of=own_redis) as replica:
        coming = slots.every_second(20, 20)
        with redis.Redis(port=replica.port) as client:
            site.wait(
                lambda: client.info("replication")["master_link_status"] == "up", "it follows"
            )
            time.sleep(4)
            # From here on it knows nothing of what the primary is told.
            client.replicaof("NO", "ONE")
        time.sleep(3)
        redis_proxy.lead_to(replica.port)
        redis_proxy.reset_all()
        promoted = time.time()
        site.wait(coming.are_done, "every slot has had its effect", 60)
        late = [
            began.timestamp() - slot.timestamp()
            for began, slot in Run.objects.values_list("started_at", "slot")
            if began is not None and slot is not None and slot.timestamp() > promoted
        ]
        note = f"replica 3 s stale; afterwards picked up within {max(late):.2f} s"
        report("A5", coming, note)
        assert max(late) <= 5
        # The nodes are asked about while the server that they use now is still there.
        site.excuses["I8"] = "the promoted server goes with this test"
        for node in site.nodes:
            assert node.stop() == 0


@pytest.mark.slow
def test_ready_runs_wait_for_workers_without_filling_redis_and_start_once(
    full_site: Site, own_redis: Server
) -> None:
    # faults A8
    # C4
    site = full_site
    site.start("--no-work")
    runs = jobs.noted.submit_many([{}] * 1000)
    sizes = []
    with redis.Redis(port=own_redis.port) as client:
        for second in range(30):
            if second in {10, 20}:
                client.flushall()
            time.sleep(1)
            sizes.append(int(client.zcard("sync_scheduler:{default}:ready:default")))
    for _ in range(2):
        site.start("--no-dispatch", "--processes=2", "--threads=2", wait=False)
    site.wait_ended(runs, 90)
    starts = ledger.starts(site.ledger_path)
    lost = Attempt.objects.filter(outcome="lost").count()
    figures.add("A8", runs=1000, lost=lost, note=f"at most {max(sizes)} ids in Redis, 2 wipes")
    assert max(sizes) <= 1000
    assert sizes[-1] == 1000, "the reconciler has put back what the wipe took"
    assert lost == 0, "nobody died, and somebody was given up"
    assert set(starts.values()) == {1}
    assert len(starts) == 1000
