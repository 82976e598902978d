"""A process is stopped while it holds rows: on MariaDB a dispatch has several statements.

The server knows nothing of a client that is stopped. By itself it would keep the rows for the
eight hours of its `wait_timeout`.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import time

from sync_scheduler.models import Run
from sync_scheduler.store.locking import database_now
from tests.faults import arming, figures, slots
from tests.faults.bounds import bound
from tests.faults.harness import Site

LEASE, SCHEDULES = 1.0, 5
POINT = "after_cas_before_commit"


def test_the_schedules_of_a_leader_stopped_in_its_transaction_are_dispatched_by_the_next(
    mariadb_site: Site,
) -> None:
    # faults A3, L3
    # A2
    site = mariadb_site
    arming.armed(site.folder, "")
    arming.hold(site.folder, POINT)
    for _ in range(2):
        site.start("--no-work", armed=site.armed(f"{POINT}=stop,limit=1"))
    site.start("--no-dispatch", "--processes=1", "--threads=2")
    site.await_leader()
    coming = slots.every_second(SCHEDULES, 12, in_seconds=0)
    arming.release(site.folder, POINT)
    site.wait(lambda: bool(site.fired(POINT)), "the leader has come there")
    (pid,) = site.fired(POINT)
    stopped = next(node for node in site.nodes if node.pid == pid)
    site.wait(lambda: stopped.survivor().is_stopped, "the leader has been stopped")
    at, epoch = database_now(), site.epoch_of(pid)

    def is_dispatched() -> bool:
        due = Run.objects.filter(slot__lte=at, slot__gt=at - dt.timedelta(seconds=1))
        names = set(due.values_list("schedule_name", flat=True))
        return len(names) == SCHEDULES and Run.objects.filter(epoch__gt=epoch).exists()

    site.wait(is_dispatched, "the next leader dispatches what the stopped one holds", 40)
    took = (database_now() - at).total_seconds()
    time.sleep(max(0.0, 4 * LEASE - took))
    assert stopped.survivor().is_stopped
    os.killpg(stopped.pid, signal.SIGCONT)
    woken = time.monotonic()
    site.wait(lambda: f" ends term {epoch}:" in stopped.output(), "it knows that its term is over")
    retreat = time.monotonic() - woken
    site.wait(coming.are_done, "every slot has had its effect", 60)
    outcome = coming.outcome()
    figures.add(
        "A3 inside the transaction, MariaDB",
        slots=coming.total,
        kills=1,
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        effects=outcome.effects,
        takeovers=[took],
        note=f"lease 1 s, frozen for 4; steps down within {retreat:.2f} s of waking",
    )
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, coming.total)
    assert not Run.objects.filter(epoch=epoch, submitted_at__gt=at).exists()
    assert took <= bound(3 * LEASE, beside_others=30)
    assert retreat <= bound(1, beside_others=30)
