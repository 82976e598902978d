"""A paused queue: nothing of it starts, everything else goes on."""

from __future__ import annotations

from sync_scheduler.models import Queue, Run
from tests.faults.harness import Site
from tests.services.server import wait_until
from tests.testapp import jobs


def is_completed(run: Run) -> bool:
    return Run.objects.get(pk=run.pk).status == "completed"


def test_nothing_of_a_paused_queue_starts_until_it_is_resumed(site: Site) -> None:
    # B15
    Queue.objects.pause("mail", note="the relay is down")
    site.start()
    waiting = jobs.noop.using(queue="mail", priority=100).submit()
    others = [jobs.noop.submit() for _ in range(5)]
    wait_until(lambda: all(map(is_completed, others)), seconds=60, what="the others are done")
    assert Run.objects.get(pk=waiting.pk).status == "submitted"

    assert Queue.objects.resume("mail") is True
    wait_until(lambda: is_completed(waiting), seconds=60, what="the resumed queue is served")
    assert Queue.objects.resume("mail") is False
