"""Which Runs a node takes up, and in which order."""

from __future__ import annotations

import pytest

from sync_scheduler.models import Run
from tests.faults.harness import Site
from tests.testapp import jobs


def test_larger_priorities_start_first(site: Site) -> None:
    # B15
    for priority in (0, 50, -50, 100):
        jobs.noted.using(priority=priority).submit(name=str(priority))
    site.start("--no-dispatch", "--processes=1", "--threads=1", "--drain", wait=False)
    site.wait_ended(Run.objects.all())
    assert [line.split()[1] for line in site.lines()] == [
        "noted-100",
        "noted-50",
        "noted-0",
        "noted--50",
    ]


def test_larger_priorities_start_first_through_redis(redis_site: Site) -> None:
    # B15
    for priority in (0, 50, -50, 100):
        jobs.noted.using(priority=priority).submit(name=str(priority))
    redis_site.start("--no-dispatch", "--processes=1", "--threads=1", "--drain", wait=False)
    redis_site.wait_ended(Run.objects.all())
    assert [line.split()[1] for line in redis_site.lines()] == [
        "noted-100",
        "noted-50",
        "noted-0",
        "noted--50",
    ]


def test_a_node_serves_only_its_queues_and_drains(site: Site) -> None:
    # B15
    mine = jobs.noted.using(queue="mine").submit()
    other = jobs.noted.using(queue="other").submit()
    node = site.start("--no-dispatch", "--queues=mine", "--drain", wait=False)
    assert node.process.wait(60) == 0, site.report()
    mine.refresh_from_db()
    other.refresh_from_db()
    assert (mine.status, other.status) == ("completed", "submitted")


def test_a_full_queue_does_not_starve_the_others(redis_site: Site) -> None:
    # B15
    flood = jobs.noop.submit_many([{}] * 800)
    alone = jobs.noted.using(queue="zebra").submit()
    redis_site.start("--no-dispatch", "--processes=1", "--threads=1")
    redis_site.wait_ended([alone, *flood], 60)
    # By what the rows say: the whole flood may be through before anybody has looked.
    alone.refresh_from_db()
    ids = [run.id for run in flood]
    later = Run.objects.filter(id__in=ids, started_at__gt=alone.started_at).count()
    assert later >= 200, "the flood was through before the other queue was looked at"


@pytest.mark.parametrize("kind", ["wait", "wait_async"])
def test_a_running_handler_notices_its_cancellation_through_redis(
    redis_site: Site, kind: str
) -> None:
    # B8; W18, faults A19
    redis_site.start(SYNC_SCHEDULER_POLL_INTERVAL="30")
    run = getattr(jobs, kind).submit()
    redis_site.wait_line("start", str(run.id))
    assert run.cancel(reason="not needed")
    redis_site.wait_line("cancelled", str(run.id))
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_plain_runs_pass_async_ones_that_find_no_slot(site: Site) -> None:
    # B15
    waiting = [jobs.wait_async.using(priority=10).submit() for _ in range(6)]
    plain = [jobs.noted.submit() for _ in range(5)]
    node = site.start(
        "--no-dispatch", "--processes=1", "--threads=1", SYNC_SCHEDULER_ASYNC_SLOTS="1"
    )
    site.wait_ended(plain)
    assert Run.objects.filter(job="tests.wait_async").exclude(status="running").count() == 0
    for run in waiting:
        assert run.cancel()
    assert node.stop() == 0


def test_runs_of_a_job_that_has_lost_its_limit_are_drained(site: Site) -> None:
    # B15: stored by a version of the code in which it had one
    runs = jobs.noted.submit_many([{}] * 4)
    Run.objects.update(gate="tests.noted:")
    Run.objects.filter(id__in=[run.id for run in runs[:2]]).update(waiting_for="gate:tests.noted:")
    node = site.start("--no-dispatch", "--drain", wait=False)
    assert node.process.wait(60) == 0, site.report()
    assert set(Run.objects.values_list("status", flat=True)) == {"completed"}
