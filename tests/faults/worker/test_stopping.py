"""How a node ends: in good order, at once, or when nothing is left."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from sync_scheduler.models import Run
from tests.faults.harness import Site
from tests.services import Server
from tests.services.ports import free_port
from tests.testapp import jobs


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except urllib.error.HTTPError:
        return False


def test_sigterm_lets_running_handlers_finish_and_gives_back_the_rest(
    site: Site, tmp_path: Path
) -> None:
    # B9; W19, faults A20
    gate = tmp_path / "open"
    port = free_port()
    node = site.start("--no-dispatch", "--processes=1", "--threads=2", f"--health-port={port}")
    running = [jobs.until_file.submit(path=str(gate)) for _ in range(2)]
    site.wait(lambda: len(site.lines()) == 2, "both are running")
    waiting = [jobs.noted.submit() for _ in range(3)]
    node.signal(signal.SIGTERM)
    site.wait(lambda: not is_healthy(port), "it knows that it is to stop")
    gate.touch()
    assert node.process.wait(60) == 0, site.report()
    assert {r.status for r in Run.objects.filter(id__in=[r.id for r in running])} == {"completed"}
    for run in Run.objects.filter(id__in=[run.id for run in waiting]):
        assert (run.status, run.attempt) == ("submitted", 0)


def test_what_does_not_finish_in_time_is_given_back_without_charge(site: Site) -> None:
    # B9; W19, faults A20
    node = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_SHUTDOWN_GRACE="0.5")
    run = jobs.wait.submit(seconds=60)
    site.wait_line("start wait")
    node.signal(signal.SIGTERM)
    assert node.process.wait(60) == 0, site.report()
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("submitted", 0)
    assert [a.outcome for a in run.attempts.all()] == ["given_back"]


def test_a_second_signal_ends_it_at_once(site: Site) -> None:
    # B9; W19, faults A20
    node = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_SHUTDOWN_GRACE="600")
    run = jobs.wait.submit(seconds=600)
    site.wait_line("start wait")
    node.signal(signal.SIGTERM)
    node.signal(signal.SIGINT)
    assert node.process.wait(60) == 0, site.report()
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("submitted", 0)


def test_a_signal_to_the_whole_group_is_as_good_as_one_to_the_node(site: Site) -> None:
    # B9
    node = site.start("--no-dispatch", "--processes=2")
    run = jobs.wait.submit(seconds=1)
    site.wait_line("start wait")
    os.killpg(node.pid, signal.SIGINT)
    assert node.process.wait(60) == 0, site.report()
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("completed", 1)


def test_what_was_given_back_is_taken_up_by_another_node(site: Site) -> None:
    # B9
    first = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_SHUTDOWN_GRACE="0")
    run = jobs.wait.submit(seconds=1.5)
    site.wait_line("start wait")
    assert first.stop() == 0
    site.start("--no-dispatch", "--processes=1")
    site.wait_ended([run])
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("completed", 1)


def test_an_idle_node_stops_while_redis_is_down(
    site: Site, use_redis: Callable[[Site, str], None], own_redis: Server
) -> None:
    # B11; W19, faults A20
    use_redis(site, own_redis.url)
    node = site.start("--no-dispatch", "--processes=1")
    own_redis.kill()
    assert node.stop() == 0, site.report()


def test_a_drained_node_has_done_everything_that_was_ready(site: Site) -> None:
    # B1
    runs = jobs.noted.submit_many([{}] * 100)
    later = jobs.noted.using(delay=3600).submit()
    failing = jobs.fail.submit()
    node = site.start("--no-dispatch", "--drain", wait=False)
    assert node.process.wait(60) == 0, site.report()
    site.wait_ended([*runs, failing], 1)
    later.refresh_from_db()
    assert later.status == "submitted"


def test_a_drained_node_ends_at_once_when_nothing_is_ready(site: Site) -> None:
    # B1
    node = site.start("--no-dispatch", "--drain", wait=False)
    assert node.process.wait(60) == 0, site.report()
