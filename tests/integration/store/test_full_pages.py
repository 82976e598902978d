"""What is over is found behind any number of rows that are not."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler import clock
from sync_scheduler.models import Node, Run
from sync_scheduler.store import nodes, upkeep

pytestmark = pytest.mark.django_db

MANY = 1500


def running(count: int, **values: object) -> list[Run]:
    now = clock.now()
    facts = {"job": "tests.noop", "run_at": now, "submitted_at": now, "started_at": now}
    facts |= {"status": "running", "node": "n", "attempt": 1, "token": 1}
    return Run.objects.bulk_create(Run(**{**facts, **values}) for _ in range(count))


def test_an_orphan_is_found_behind_pages_of_runs_that_are_not_over() -> None:
    # C6; W11
    now = clock.now()
    old = now - dt.timedelta(hours=2)
    running(MANY, started_at=old, timeout_seconds=86_400)
    running(MANY, started_at=old)
    (orphan,) = running(1, started_at=old, timeout_seconds=60)
    running(MANY, started_at=old, timeout_seconds=86_400)

    found = [claim.id for claim in upkeep.orphans(now, dt.timedelta(minutes=5))]
    assert found == [orphan.id]


def test_a_lost_run_is_found_behind_pages_whose_lease_is_longer() -> None:
    # B9; W11
    now = clock.now()
    Node.objects.create(name="n", host="h", pid=1, started_at=now, heartbeat_at=now)
    running(MANY, lease_seconds=3600)
    (lost,) = running(1, lease_seconds=10)
    running(MANY, lease_seconds=3600)

    taken = nodes.take_back(nodes.Silence(node="n", seconds=60.0))
    assert taken.accepted == {lost.id}
