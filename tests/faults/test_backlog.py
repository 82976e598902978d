"""A long backlog is caught up with while processes die at the worst moments there are."""

from __future__ import annotations

import datetime as dt
import os
import signal

import pytest

from sync_scheduler import clock
from sync_scheduler.models import Attempt, Run
from tests.faults import figures, slots
from tests.faults.fleet import Fleet
from tests.faults.harness import Site

LEADER = ("in_dispatch", "after_commit_before_push", "after_mint_before_record", "in_prune")
# From which hit of a process on: a Run that is tried again alone must not be hit again.
WORKER = {
    "after_claim_before_start": 2,
    "after_handler_before_complete": 15,
    "after_complete_before_commit": 25,
}


def history(count: int) -> None:
    """Runs that ended long ago, each with an attempt; what pruning is for."""
    old = clock.now() - dt.timedelta(days=60)
    runs = Run.objects.bulk_create(
        Run(job="tests.noop", status="completed", run_at=old, submitted_at=old, finished_at=old)
        for _ in range(count)
    )
    Attempt.objects.bulk_create(
        Attempt(run=run, number=1, node="", started_at=old, finished_at=old, outcome="completed")
        for run in runs
    )


def survive(site: Site, *, schedules: int, count: int, kills: int) -> None:
    site.environment["SYNC_SCHEDULER_PRUNE_INTERVAL"] = "1"
    history(300)
    backlog = slots.missed(schedules, count)
    leading = ";".join(f"{name}=exit,limit={kills}" for name in LEADER)
    working = ";".join(f"{n}=exit,first={hit},limit={kills}" for n, hit in WORKER.items())
    fleet = Fleet(site, "backlog")
    for _ in range(2):
        fleet.add("--no-work", **site.armed(leading))
        fleet.add("--no-dispatch", "--processes=1", "--threads=2", **site.armed(working))

    def done() -> bool:
        fleet.replace_dead()
        gone = not Run.objects.filter(finished_at__lt=clock.now() - dt.timedelta(days=8)).exists()
        return gone and backlog.are_done()

    site.wait(done, "everything is caught up with", 90 + backlog.total / 20)
    hit = {name: len(site.fired(name)) for name in (*LEADER, *WORKER)}
    outcome = backlog.outcome()
    figures.add(
        "A2",
        slots=backlog.total,
        kills=sum(hit.values()),
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        effects=outcome.effects,
        note=f"{kills} at each of {len(hit)} failpoints",
    )
    assert hit == dict.fromkeys(hit, kills)
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, backlog.total)
    known = set(Run.objects.values_list("id", flat=True))
    left = [one for one in Attempt.objects.values_list("run_id", flat=True) if one not in known]
    assert not left, "a batch of history went only in part"


def test_a_backlog_is_caught_up_with_whatever_dies_when(full_site: Site) -> None:
    # faults A2
    # A4, A7, B9, B10, B16
    survive(full_site, schedules=20, count=15, kills=1)


@pytest.mark.slow
def test_ten_thousand_missed_slots_are_caught_up_with_whatever_dies_when(full_site: Site) -> None:
    # faults A2
    # A4, A7, B9, B10, B16
    survive(full_site, schedules=100, count=100, kills=5)


@pytest.mark.parametrize("action", ["exit", "stop"])
def test_a_leader_that_ends_inside_its_transaction_loses_and_repeats_nothing(
    mariadb_site: Site, action: str
) -> None:
    # faults A2, A3
    # A2, A7
    site = mariadb_site
    backlog = slots.missed(10, 10)
    point = "after_cas_before_commit"
    fleet = Fleet(site, "inside the transaction")
    for _ in range(2):
        fleet.add("--no-work", **site.armed(f"{point}={action},limit=1"))
    fleet.add("--no-dispatch", "--processes=1", "--threads=2")
    site.wait(lambda: bool(site.fired(point)), "the leader was hit", 40)
    epoch = site.epoch_of(site.fired(point)[0])
    site.wait(lambda: site.epoch() > epoch, "the next term has begun")
    if action == "stop":
        os.kill(site.fired(point)[0], signal.SIGCONT)

    def done() -> bool:
        fleet.replace_dead()
        return backlog.are_done()

    site.wait(done, "everything is caught up with", 60)
    outcome = backlog.outcome()
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, backlog.total)
