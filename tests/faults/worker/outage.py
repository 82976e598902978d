"""A load that runs through an outage of its database, and what must be true of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

from django.db import DatabaseError, connections

from sync_scheduler import cron
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.locking import database_now
from tests.faults.harness import Site, audit
from tests.testapp import jobs
from tests.testapp.models import Counter, Effect

# A commit that was answered must survive the server's sudden death, as on a real one.
DURABLE = {"synchronous_commit": "on"}
SCHEDULES = 5
# How long recovering may take on a machine that is busy with other things.
PATIENCE = 40.0


def load(site: Site) -> None:
    """Schedules of every second, and a counter that atomic Runs count up."""
    Counter.objects.create(name="all")
    for number in range(SCHEDULES):
        Schedule.objects.register(
            f"second-{number}",
            job=jobs.atomic_count,
            rule=cron("* * * * * *", tz="UTC"),
            overlap="concurrent",
            input={"name": "all"},
        )
    site.wait(lambda: Run.objects.filter(status="completed").exists(), "slots are run")


def reconnect() -> None:
    connections["default"].close()


def submit(count: int = 20) -> list[Run]:
    return jobs.atomic_count.submit_many([{"name": "all"}] * count)


def wait_recovered(site: Site) -> float:
    """Until slots are dispatched and Runs completed again; how long that took."""
    began, since = time.monotonic(), database_now()
    run = jobs.noop.submit()

    def is_well() -> bool:
        try:
            return (
                Run.objects.filter(slot__gt=since, status="completed").exists()
                and Run.objects.get(pk=run.pk).status == "completed"
            )
        except DatabaseError:
            reconnect()
            return False

    site.wait(is_well, "everything goes on", PATIENCE)
    return time.monotonic() - began


def assert_nothing_lost(site: Site, atomic: Iterable[Run]) -> int:
    """Every second of every schedule has one Run, each completed one its effect; how many."""
    until = database_now()
    schedules = Schedule.objects.all()
    site.wait(
        lambda: not schedules.filter(next_run_at__lte=until).exists(),
        "everything due has been dispatched",
    )
    schedules.update(enabled=False)
    site.wait_ended(Run.objects.all(), 60)
    for name in schedules.values_list("name", flat=True):
        runs = Run.objects.filter(schedule_name=name).order_by("slot")
        slots = [slot for slot in runs.values_list("slot", flat=True) if slot is not None]
        seconds = {(after - before).total_seconds() for before, after in pairwise(slots)}
        assert seconds == {1.0}, f"{name} lost or repeated a slot"
        assert not runs.filter(status="skipped").exists()
    audit(site, atomic=[*atomic, *Run.objects.filter(trigger="slot")])
    assert Counter.objects.get().value == Effect.objects.count()
    return Run.objects.filter(trigger="slot").count()
