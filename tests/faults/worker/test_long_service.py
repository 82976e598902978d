"""A node that has done very much is as it was when it began."""

from __future__ import annotations

import dataclasses

import psutil
import pytest
from django.db import connection

from sync_scheduler.models import Run
from tests.faults import figures
from tests.faults.harness import Node, Site
from tests.testapp import jobs

BATCH = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    memory: int
    files: int
    connections: int


def measure(node: Node) -> Size:
    parent = psutil.Process(node.pid)
    family = [parent, *parent.children(recursive=True)]
    sessions = 0
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            )
            sessions = cursor.fetchone()[0]
    return Size(
        memory=sum(process.memory_info().rss for process in family),
        files=sum(process.num_fds() for process in family),
        connections=sessions,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["embedded", "redis"])
def test_twenty_thousand_runs_leave_a_node_as_it_was(
    site: Site, request: pytest.FixtureRequest, mode: str
) -> None:
    # B11; W21, faults A22
    if mode == "redis":
        site = request.getfixturevalue("redis_site")
    node = site.start("--processes=2", "--threads=2")
    sizes: list[Size] = []
    for _ in range(20):
        runs = jobs.noop.submit_many([{}] * BATCH)
        site.wait_ended(runs, 120)
        sizes.append(measure(node))
        Run.objects.all().delete()
    warm, last = sizes[1], sizes[-1]
    figures.add(
        f"A22 {mode}",
        runs=20 * BATCH,
        note=f"RSS {warm.memory >> 20} -> {last.memory >> 20} MB, descriptors {warm.files} ->"
        f" {last.files}, connections {warm.connections} -> {last.connections}",
    )
    assert last.memory <= warm.memory * 1.1
    assert last.files <= warm.files + 2
    assert last.connections <= warm.connections + 1
