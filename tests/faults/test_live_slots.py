"""Slots come every second while processes are killed at random."""

from __future__ import annotations

import time

import pytest

from tests.faults import figures, slots
from tests.faults.bounds import bound
from tests.faults.fleet import Fleet
from tests.faults.harness import Site


def survive(
    site: Site,
    *,
    schedules: int,
    seconds: int,
    kills: int,
    nodes: tuple[int, int],
    number: str = "A1",
) -> None:
    fleet = Fleet(site, "live slots")
    for _ in range(nodes[0]):
        fleet.add("--no-work")
    for _ in range(nodes[1]):
        fleet.add("--no-dispatch", "--processes=1", "--threads=2")
    fleet.wait_started()
    coming = slots.every_second(schedules, seconds)
    fleet.strike_for(seconds, kills)
    site.wait(coming.are_done, "every slot has had its effect", 60 + coming.total / 50)
    took = time.time() - (coming.start.timestamp() + seconds)
    outcome = coming.outcome()
    figures.add(
        number,
        slots=coming.total,
        kills=fleet.kills,
        lost=outcome.lost,
        duplicated=outcome.duplicated,
        effects=outcome.effects,
        takeovers=fleet.takeovers(),
        note=f"all done {max(took, 0):.1f} s after the last slot",
    )
    assert (outcome.lost, outcome.duplicated, outcome.effects) == (0, 0, coming.total)
    assert fleet.kills == kills
    assert took <= bound(15, beside_others=60 + coming.total / 50)


def test_every_slot_has_one_effect_while_processes_are_killed(full_site: Site) -> None:
    # faults A1
    # A1, A2, A7, B16, C2
    survive(full_site, schedules=20, seconds=15, kills=6, nodes=(2, 2))


def test_every_slot_has_one_effect_on_mariadb_too(mariadb_site: Site) -> None:
    # faults A1, on the database where a dispatch is a transaction of several statements
    # A1, A2, A7, B16, C2
    size = {"schedules": 10, "seconds": 12, "kills": 6}
    survive(mariadb_site, **size, nodes=(2, 2), number="A1, MariaDB")


@pytest.mark.slow
def test_ten_thousand_slots_have_one_effect_each_under_fifty_kills(full_site: Site) -> None:
    # faults A1
    # A1, A2, A7, B16, C2
    survive(full_site, schedules=100, seconds=100, kills=50, nodes=(3, 4))
