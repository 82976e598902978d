"""Nodes that are told to stop while they have their hands full, or while a server is away."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sync_scheduler.models import Attempt, Node, Run
from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.harness import Site, audit
from tests.services import Server
from tests.testapp import jobs

GRACE = 1.0
LONG = 3.0
# What may be added to the grace time.
SLACK = bound(2, beside_others=20)
# So many threads that what a node gives back finds room elsewhere.
OPTIONS = ("--no-dispatch", "--processes=2", "--threads=8")


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_nodes_that_are_stopped_under_load_leave_nothing_behind(site: Site, rounds: int) -> None:
    # B9, C2; W19, faults A20
    site.environment["SYNC_SCHEDULER_SHUTDOWN_GRACE"] = str(GRACE)
    # Nobody is given up for lost here: what a node has left behind stays and shows.
    site.environment["SYNC_SCHEDULER_NODE_LEASE"] = "600"
    nodes = [site.start(*OPTIONS), site.start(*OPTIONS)]
    runs: list[Run] = []
    took: list[float] = []
    for number in range(rounds):
        new = site.start(*OPTIONS)
        # Some that take longer than the grace time, and more than one node can begin at once.
        added = jobs.wait.submit_many([{"seconds": LONG}] * 12 + [{"seconds": 0.3}] * 12)
        runs += added
        at_work = Run.objects.filter(
            id__in=[run.id for run in added], status="running", input={"seconds": LONG}
        )
        site.wait(at_work.exists, "a node is at work")
        name = at_work.values_list("node", flat=True)[0]
        pid = Node.objects.get(name=name).pid
        nodes.append(new)
        old = next(node for node in nodes if node.pid == pid)
        nodes.remove(old)
        mine = Run.objects.filter(node=name, status="running")
        began = time.monotonic()
        old.signal(signal.SIGTERM)
        if number % 3 == 1:
            old.signal(signal.SIGTERM)
        assert old.process.wait(60) == 0, site.report()
        took.append(time.monotonic() - began)
        assert took[-1] <= GRACE + SLACK
        assert not mine.exists()
    site.wait_ended(runs, 90)

    assert set(Run.objects.values_list("status", "attempt")) == {("completed", 1)}
    audit(site, plain=runs)
    pauses = _pauses()
    assert pauses, "nothing was ever given back"
    figures.add(
        f"A20 {rounds} stops",
        runs=len(runs),
        kills=rounds,
        takeovers=pauses,
        note=f"exit 0 after at most {max(took):.1f} s, grace {GRACE:.0f} s",
    )
    assert max(pauses) <= bound(2, beside_others=10)


def _pauses() -> list[float]:
    """How long each Run that was given back waited for its next start."""
    found = []
    for back in Attempt.objects.filter(outcome="given_back"):
        later = Attempt.objects.filter(run_id=back.run_id, id__gt=back.id).order_by("id").first()
        if later is not None:
            found.append((later.started_at - back.finished_at).total_seconds())
    return found


def test_a_node_that_is_stopped_while_the_database_is_down_ends_in_time(
    postgres_site: Site, own_postgres: Server, tmp_path: Path
) -> None:
    # B9, B11; W19, faults A20
    site, gate = postgres_site, tmp_path / "open"
    node = site.start("--processes=1", SYNC_SCHEDULER_SHUTDOWN_GRACE=str(GRACE))
    run = jobs.until_file.submit(path=str(gate))
    site.wait_line("start until_file")
    own_postgres.stop()
    began = time.monotonic()
    node.signal(signal.SIGTERM)
    assert node.process.wait(60) == 0, node.output()
    assert time.monotonic() - began <= GRACE + SLACK
    own_postgres.launch()
    _reconnect()
    site.start("--processes=1")
    site.wait(lambda: site.starts(run) == 2, "it was taken up again")
    gate.touch()
    site.wait_ended([run])
    run.refresh_from_db()
    assert run.status == "completed"


def test_a_node_that_is_stopped_while_redis_is_down_gives_everything_back(
    site: Site, use_redis: Callable[[Site, str], None], own_redis: Server
) -> None:
    # B9, B11; W19, faults A20
    use_redis(site, own_redis.url)
    node = site.start("--no-dispatch", "--processes=1", SYNC_SCHEDULER_SHUTDOWN_GRACE=str(GRACE))
    runs = jobs.wait.submit_many([{"seconds": 30.0}] * 2)
    site.wait(lambda: len(site.lines()) == 2, "both are running")
    own_redis.kill()
    waiting = jobs.noted.submit()
    began = time.monotonic()
    node.signal(signal.SIGTERM)
    assert node.process.wait(60) == 0, node.output()
    assert time.monotonic() - began <= GRACE + SLACK
    for run in Run.objects.filter(id__in=[run.id for run in runs]):
        assert (run.status, run.attempt) == ("submitted", 0)
    waiting.refresh_from_db()
    assert waiting.status in {"submitted", "completed"}


def _reconnect() -> None:
    """This process was connected as well."""
    from django.db import connections

    connections["default"].close()
