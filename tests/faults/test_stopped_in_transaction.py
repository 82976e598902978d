"""A process is stopped while it holds rows: on MariaDB a dispatch has several statements.

The server knows nothing of a client that is stopped. By itself it would keep the rows for the
eight hours of its `wait_timeout`.
"""

from __future__ import annotations

import os
import signal
import time

from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.locking import database_now
from tests.faults import arming, figures, slots
from tests.faults.harness import Site

LEASE = 1.0
POINT = "after_cas_before_commit"


def test_the_schedules_of_a_leader_stopped_in_its_transaction_are_dispatched_by_the_next(
    mariadb_site: Site,
) -> None:
    # faults A3, L3
    # A2
    site = mariadb_site
    arming.armed(site.folder, "")
    arming.hold(site.folder, POINT)
    stopped = site.start("--no-work", armed=site.armed(f"{POINT}=stop,limit=1"))
    assert site.await_leader() is stopped
    site.start("--no-work")
    site.start("--no-dispatch", "--processes=1", "--threads=2")
    coming = slots.every_second(5, 12, in_seconds=0)
    arming.release(site.folder, POINT)
    site.wait(lambda: bool(site.fired(POINT)), "the leader has come there")
    site.wait(lambda: stopped.survivor().is_stopped, "the leader has been stopped")
    at, epoch = database_now(), site.epoch()
    held = set(Schedule.objects.filter(next_run_at__lte=at).values_list("name", flat=True))
    assert held, "the leader was stopped with nothing in its hands"

    def is_dispatched() -> bool:
        later = Run.objects.filter(epoch__gt=epoch, slot__lte=at)
        return held <= set(later.values_list("schedule_name", flat=True))

    site.wait(is_dispatched, "the next leader dispatches what the stopped one holds")
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
    assert took <= 3 * LEASE
    assert retreat <= 3 * LEASE
