"""The network breaks connections, swallows answers, or lets nothing through."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import psutil
import pytest
from django.db import InterfaceError, OperationalError, connections, transaction

from sync_scheduler.models import Run
from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.database import connected_to
from tests.faults.fleet import Fleet
from tests.faults.harness import Site
from tests.faults.node import Node
from tests.faults.proxy import COMMIT, INSERT_RUN, Proxy
from tests.testapp import jobs
from tests.testapp.models import Effect

COMMITTING = re.compile(COMMIT.pattern + b"|" + INSERT_RUN.pattern)


def insist(action: Callable[[], object]) -> int:
    """Do it until it is known to be done; how often it failed."""
    for failures in range(100):
        try:
            action()
        except (OperationalError, InterfaceError):
            connections["default"].close()
            continue
        return failures
    raise AssertionError("the network never let it through")


def submit(number: int) -> None:
    keyed = jobs.stubborn.using(key=f"order:{number}")
    if number % 2:
        with transaction.atomic():
            keyed.submit(name=f"order {number}")
    else:
        keyed.submit(name=f"order {number}")


def survive(site: Site, proxy: Proxy, count: int) -> None:
    fleet = Fleet(site, "network")
    fleet.add("--no-work")
    for _ in range(2):
        fleet.add("--no-dispatch", "--processes=1", "--threads=2")
    fleet.wait_started()
    # So that some are swallowed, whatever the seed.
    share = max(0.02, 20 / count)
    proxy.behave(reset_share=0.02, swallow=COMMITTING, swallow_share=share)
    with connected_to(site.environment["TEST_DATABASE_URL"]):
        failures = sum(insist(lambda number=number: submit(number)) for number in range(count))  # type: ignore[misc]
    site.wait(
        lambda: Run.objects.filter(status="completed").count() >= count,
        "every order has had its effect",
        60 + count / 10,
    )
    proxy.heal()
    effects, rows = Effect.objects.count(), Run.objects.count()
    figures.add(
        "A6",
        runs=count,
        lost=count - rows,
        duplicated=max(0, rows - count),
        effects=effects,
        note=f"{proxy.counts['resets']} resets, {proxy.counts['swallowed']} answers swallowed",
    )
    assert (rows, effects) == (count, count)
    assert failures > 0
    assert proxy.counts["swallowed"] > 0
    assert all(post.node.is_running for post in fleet.posts)


def test_keyed_submits_are_stored_once_when_answers_are_lost(
    full_site: Site, database_proxy: Proxy
) -> None:
    # faults A6
    # B5, B11, B16
    survive(full_site, database_proxy, 200)


@pytest.mark.slow
def test_two_thousand_keyed_submits_are_stored_once_when_answers_are_lost(
    full_site: Site, database_proxy: Proxy
) -> None:
    # faults A6
    # B5, B11, B16
    survive(full_site, database_proxy, 2000)


def cpu_share(nodes: list[Node], seconds: float) -> float:
    """How much of one core these nodes and their children use, over so many seconds."""

    def used() -> float:
        family = [p for n in nodes for p in (psutil.Process(n.pid), *n.children())]
        return sum(sum(p.cpu_times()[:2]) for p in family)

    before = used()
    time.sleep(seconds)
    return (used() - before) / seconds


def latencies(count: int) -> list[float]:
    """How long submits take while Redis is troubled; none of them may raise."""
    found = []
    for _ in range(count):
        began = time.monotonic()
        jobs.noted.submit()
        found.append(time.monotonic() - began)
    return sorted(found)


@pytest.mark.slow
def test_submits_neither_wait_for_a_troubled_redis_nor_fail(
    full_site: Site, redis_proxy: Proxy
) -> None:
    # faults A7
    # B11, C3
    site, proxy = full_site, redis_proxy
    nodes = [site.start("--no-work"), site.start("--no-dispatch", "--processes=1", "--threads=2")]
    latencies(20)
    idle, worst, pickups = 0.0, 0.0, []
    for trouble in ("black hole", "delay", "resets"):
        proxy.behave(
            black_hole=trouble == "black hole",
            delay=0.3 if trouble == "delay" else 0.0,
            reset_share=0.5 if trouble == "resets" else 0.0,
        )
        took = latencies(100)
        worst = max(worst, took[98])
        site.wait_ended(Run.objects.all(), 60)
        if trouble == "black hole":
            idle = cpu_share(nodes, 10)
        proxy.heal()
        run = jobs.noted.submit()
        site.wait_ended([run])
        run.refresh_from_db()
        assert run.started_at is not None
        pickups.append((run.started_at - run.submitted_at).total_seconds())
    figures.add(
        "A7",
        runs=Run.objects.count(),
        lost=Run.objects.exclude(status="completed").count(),
        note=f"submit p99 {worst * 1000:.0f} ms, pick-up within {max(pickups):.2f} s after healing,"
        f" idle without Redis {idle:.0%} of a core",
    )
    assert worst <= 0.5
    assert max(pickups) <= 3
    assert idle <= bound(0.1, beside_others=0.3)
