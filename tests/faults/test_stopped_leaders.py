"""A leader is stopped for longer than its lease, anywhere, and wakes up believing that it leads."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from sync_scheduler.models import Run, Term
from sync_scheduler.store.locking import database_now
from tests.faults import arming, figures, slots
from tests.faults.bounds import bound
from tests.faults.fleet import Fleet, stand_in
from tests.faults.harness import Site
from tests.faults.node import Node

LEASE = 1.0
# The promise is one and a half leases; what a busy machine adds to it is not the leader's doing.
PATIENCE = bound(1.5, beside_others=10) * LEASE
POINT = "after_mint_before_record"


def ended_terms(node: Node) -> set[int]:
    return {int(number) for number in re.findall(r" ends term (\d+)", node.output())}


def await_term(site: Site, epoch: int) -> None:
    """The epoch comes first, the record of the term a moment later."""
    site.wait(lambda: Term.objects.filter(epoch=epoch).exists(), "the next term has begun")


def stop_in_the_middle(site: Site) -> tuple[Node, float]:
    """Stop the leader between its decision and its write; who it was, and when."""
    arming.release(site.folder, "in_dispatch")
    site.wait(lambda: bool(site.fired("in_dispatch")), "the leader has been stopped")
    at = (site.folder / "failpoints" / "in_dispatch.1").stat().st_mtime
    (pid,) = site.fired("in_dispatch")
    return next(node for node in site.nodes if node.pid == pid), at


def survive(site: Site, *, rounds: int) -> None:
    arming.armed(site.folder, "")
    arming.hold(site.folder, "in_dispatch")
    fleet = Fleet(site, "stopped leaders")
    for _ in range(2):
        fleet.add("--no-work", **site.armed("in_dispatch=stop,limit=1"))
    fleet.add("--no-dispatch", "--processes=1", "--threads=2")
    fleet.wait_started()
    # Enough for the last round, in which a leader is stopped while it dispatches.
    coming = slots.every_second(10, int(bound(5, beside_others=8)) * rounds + 5)
    takeovers, retreats = [], []
    for number in range(rounds):
        # At another moment of the second each time.
        time.sleep(1 + number / rounds)
        leader = site.await_leader()
        if number % 2:
            leader, at = stop_in_the_middle(site)
        else:
            leader.freeze()
            at = database_now().timestamp()
        # Not the newest: on a busy machine the next may have begun already.
        epoch = site.epoch_of(leader.pid)
        await_term(site, epoch + 1)
        takeovers.append(Term.objects.get(epoch=epoch + 1).started_at.timestamp() - at)
        time.sleep(max(0.0, at + 3 * LEASE - time.time()))
        woken = time.monotonic()
        os.killpg(leader.pid, signal.SIGCONT)
        site.wait(lambda: epoch in ended_terms(leader), "it knows that its term is over")  # noqa: B023
        retreats.append(time.monotonic() - woken)
    site.wait(coming.are_done, "every slot has had its effect", 60)
    outcome = coming.outcome()
    figures.add(
        "A3",
        slots=coming.total,
        kills=rounds,
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        effects=outcome.effects,
        takeovers=takeovers,
        note=f"lease 1 s, frozen for 3; steps down within {max(retreats):.2f} s of waking",
    )
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, coming.total)
    assert max(takeovers) <= PATIENCE
    assert max(retreats) <= bound(1, beside_others=10)


def test_a_stopped_leader_is_replaced_and_steps_down_when_it_wakes(full_site: Site) -> None:
    # faults A3
    # A2
    survive(full_site, rounds=4)


@pytest.mark.slow
def test_ten_stopped_leaders_are_replaced_and_step_down_when_they_wake(full_site: Site) -> None:
    # faults A3
    # A2
    survive(full_site, rounds=10)


def test_a_decision_of_a_term_that_is_over_is_not_written(full_site: Site) -> None:
    # faults A3, the fence alone: the schedule itself is as the stopped leader has seen it
    # A2
    site = full_site
    node = site.start("--no-work", armed=site.armed("in_dispatch=stop,limit=1"))
    coming = slots.every_second(5, 3, in_seconds=0)
    site.wait(lambda: bool(site.fired("in_dispatch")), "the leader has come there")
    site.wait(lambda: node.survivor().is_stopped, "the leader has been stopped")
    epoch = site.epoch_of(node.pid)
    stand_in()
    node.signal(signal.SIGCONT)
    site.wait(lambda: epoch in ended_terms(node), "it knows that its term is over")
    assert not Run.objects.exists()
    site.excuses["I3"] = "nobody dispatches any more: the new leader does not exist"
    assert coming.total == 15


def test_a_candidate_that_stops_while_it_takes_over_holds_nobody_up(full_site: Site) -> None:
    # faults A3, at the moment at which the next term begins
    # A2
    site = full_site
    first = site.start("--no-work")
    site.await_leader()
    arming.armed(site.folder, "")
    arming.hold(site.folder, POINT)
    for _ in range(2):
        site.start("--no-work", armed=site.armed(f"{POINT}=stop,limit=1"))
    arming.release(site.folder, POINT)
    first.kill()
    site.wait(lambda: bool(site.fired(POINT)), "a candidate has been stopped")
    at = (site.folder / "failpoints" / f"{POINT}.1").stat().st_mtime
    (stopped,) = site.fired(POINT)

    def is_led() -> bool:
        leader = site.leader()
        return leader is not None and leader.pid != stopped

    site.wait(is_led, "another one leads")
    took = time.time() - at
    os.kill(stopped, signal.SIGCONT)
    figures.add("A3 while taking over", kills=2, takeovers=[took])
    assert took <= PATIENCE
    newest = Term.objects.order_by("-epoch")[0]
    site.wait(
        lambda: not Term.objects.filter(epoch__lt=newest.epoch, ended_at=None).exists(),
        "terms that are over say so",
    )


@pytest.mark.slow
def test_killed_leaders_are_replaced_within_one_and_a_half_default_leases(full_site: Site) -> None:
    # faults A3b
    # A2
    site = full_site
    del site.environment["SYNC_SCHEDULER_LEADER_LEASE"]
    del site.environment["SYNC_SCHEDULER_LEADER_HEARTBEAT"]
    fleet = Fleet(site, "default lease")
    for _ in range(3):
        fleet.add("--no-work")
    fleet.wait_started()
    takeovers = []
    for _ in range(5):
        leader, epoch = site.await_leader(), site.epoch()
        at = database_now()
        leader.kill()
        await_term(site, epoch + 1)
        takeovers.append((Term.objects.get(epoch=epoch + 1).started_at - at).total_seconds())
        fleet.replace_dead()
        fleet.wait_started()
    figures.add("A3b", kills=5, takeovers=takeovers, note="lease 5 s")
    assert max(takeovers) <= 1.5 * 5
