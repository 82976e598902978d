"""Nodes that die or freeze with Runs in their hands."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from sync_scheduler import clock
from sync_scheduler.models import Node, Run
from tests.faults.harness import QUICK, Site, audit
from tests.faults.node import Node as Process
from tests.faults.seed import chance
from tests.testapp import jobs
from tests.testapp.models import Counter, Effect


def test_a_run_whose_node_was_killed_is_taken_up_by_another(site: Site, tmp_path: Path) -> None:
    # B9, C1
    gate = tmp_path / "open"
    first = site.start("--no-dispatch", "--processes=1")
    children = first.all_children()
    run = jobs.until_file.submit(path=str(gate))
    site.wait_line("start until_file")
    first.kill()
    site.wait(lambda: not any(c.is_running() for c in children), "its children died with it")
    site.start("--processes=1")
    site.wait(lambda: site.starts(run) == 2, "it was taken up again")
    gate.touch()
    site.wait_ended([run])
    run.refresh_from_db()
    assert run.status == "completed"
    # The death of a node charges no attempt the first time.
    assert run.attempt == 1
    assert [a.outcome for a in run.attempts.all()] == ["lost", "completed"]


def test_a_node_that_lives_keeps_its_long_run(site: Site) -> None:
    # B9
    site.start("--no-dispatch", "--processes=1")
    site.start("--no-work")
    run = jobs.wait.submit(seconds=2 * float(QUICK["SYNC_SCHEDULER_NODE_LEASE"]) + 1)
    site.wait_ended([run])
    run.refresh_from_db()
    assert (run.status, run.attempt, site.starts(run)) == ("completed", 1, 1)


def test_a_frozen_node_cannot_complete_what_was_taken_from_it(site: Site, tmp_path: Path) -> None:
    # B9
    gate = tmp_path / "open"
    zombie = site.start("--no-dispatch", "--processes=1")
    run = jobs.until_file.submit(path=str(gate))
    site.wait_line("start until_file")
    zombie.freeze()
    site.start("--processes=1")
    site.wait(lambda: site.starts(run) == 2, "another node has taken it up")
    run.refresh_from_db()
    holder = run.node
    zombie.thaw()
    gate.touch()
    site.wait_ended([run])
    assert zombie.stop() == 0
    run.refresh_from_db()
    assert (run.status, run.node) == ("completed", holder)
    assert [a.outcome for a in run.attempts.all()] == ["lost", "completed"]


def test_an_atomic_handler_of_a_frozen_node_has_no_effect(site: Site, tmp_path: Path) -> None:
    # B16; W5, faults A3
    if Run.objects.db == "default" and _is_sqlite():
        pytest.skip("a frozen writer holds SQLite's only lock; nobody else can go on")
    gate = tmp_path / "open"
    zombie = site.start("--no-dispatch", "--processes=1")
    run = jobs.atomic_wait.submit(name="once", path=str(gate))
    site.wait_line("start atomic_wait")
    zombie.freeze()
    site.start("--processes=1")
    site.wait(lambda: site.starts(run) == 2, "another node has taken it up")
    zombie.thaw()
    gate.touch()
    site.wait_ended([run])
    assert zombie.stop() == 0
    assert Effect.objects.count() == 1
    audit(site, atomic=[run])


def _is_sqlite() -> bool:
    from django.db import connection

    return connection.vendor == "sqlite"


def _strike(site: Site, alive: list[Process], options: tuple[str, ...], random: Random) -> None:
    """SIGKILL for a process of these nodes, whichever; a parent is replaced."""
    site.kills += 1
    index = random.randrange(len(alive))
    victims = alive[index].children()
    if victims and random.random() < 0.6:
        random.choice(victims).kill()
    else:
        alive[index].kill()
        alive[index] = site.start(*options)


def _exactly_once(site: Site, count: int, kills: int, seconds: float) -> None:
    """Each kill meets work that has just been submitted, however fast the machine is."""
    random, options = chance("exactly once"), ("--processes=2", "--threads=2")
    Counter.objects.create(name="all")
    runs: list[Run] = []
    alive = [site.start(*options), site.start(*options)]
    for _ in range(kills):
        runs += jobs.atomic_count.submit_many([{"name": "all"}] * (count // kills))
        time.sleep(random.uniform(0.0, 0.2))
        _strike(site, alive, options, random)
    site.wait_ended(runs, seconds)
    assert site.kills == kills
    assert Run.objects.filter(status="completed").count() == count, site.report()
    assert Counter.objects.get().value == count
    audit(site, atomic=runs)


def test_atomic_effects_happen_exactly_once_under_random_kills(site: Site) -> None:
    # B16; faults A1
    _exactly_once(site, 1000, 10, 120)


@pytest.mark.slow
def test_ten_thousand_atomic_effects_happen_exactly_once_under_fifty_kills(site: Site) -> None:
    # B16; faults A1
    _exactly_once(site, 10_000, 50, 900)


def test_plain_runs_are_lost_by_nobody_when_nodes_are_replaced_one_by_one(site: Site) -> None:
    # C2
    # Long leases: nobody is to be given up here, however slow the machine is.
    site.environment["SYNC_SCHEDULER_NODE_LEASE"] = "60"
    nodes = [site.start("--processes=1", "--threads=4") for _ in range(3)]
    runs: list[Run] = []
    for _ in range(3):
        replacements = [site.start("--processes=1", "--threads=4", wait=False) for _ in range(3)]
        for old, new in zip(nodes, replacements, strict=True):
            runs += [jobs.noted.submit(name=str(len(runs))) for _ in range(20)]
            new.wait_started()
            runs += [jobs.noted.submit(name=str(len(runs))) for _ in range(20)]
            assert old.stop() == 0, site.report()
        nodes = replacements
    site.wait_ended(runs, 60)
    assert {run.status for run in Run.objects.all()} == {"completed"}
    again = [run for run in runs if site.starts(run) != 1]
    assert not again, [list(run.attempts.values()) for run in again]


def test_a_claim_whose_answer_was_lost_is_given_back(site: Site) -> None:
    # B9; faults A6
    site.start("--no-dispatch", "--processes=1")
    run = jobs.noted.using(delay=3600).submit()
    # What is left when the connection breaks between the claim's commit and its answer. Written
    # as one statement, or the node itself would claim it in between.
    now = clock.now()
    Run.objects.filter(id=run.id).update(
        status="running",
        node=Node.objects.get().name,
        attempt=1,
        token=1,
        run_at=now,
        started_at=now,
    )
    site.wait_ended([run])
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("completed", 1)
    assert [a.outcome for a in run.attempts.all()] == ["given_back", "completed"]


def test_a_node_that_left_is_marked_as_stopped(site: Site) -> None:
    # C1
    node = site.start("--no-dispatch")
    assert Node.objects.get().stopped_at is None
    assert node.stop() == 0
    assert Node.objects.get().stopped_at is not None
