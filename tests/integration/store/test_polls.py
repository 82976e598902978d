"""What a poll reads does not grow with what is ready in other queues, or has finished."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sync_scheduler import clock
from sync_scheduler.models import Run
from sync_scheduler.store import claims
from tests.integration.store.runs import JOB

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _a_backlog(transactional_db: None) -> None:
    """Ready Runs of many queues, behind a history of finished ones."""
    now = clock.now()

    def run(i: int) -> Run:
        at = now - dt.timedelta(seconds=9000 - i)
        common = {"job": JOB, "queue": f"q{i % 20}", "run_at": at, "submitted_at": at}
        if i < 4000:
            return Run(status="completed", finished_at=at, **common)
        return Run(status="submitted", priority=i % 3, **common)

    Run.objects.bulk_create((run(i) for i in range(8000)), batch_size=1000)
    statements = {
        "mysql": "ANALYZE TABLE sync_scheduler_run",
        "postgresql": "ANALYZE sync_scheduler_run",
        "sqlite": "ANALYZE",
    }
    with connection.cursor() as cursor:
        cursor.execute(statements[connection.vendor])


def plan_of(sql: str) -> str:
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {sql.replace('%', '%%')}")
        names = [column[0] for column in cursor.description]
        rows: list[Any] = cursor.fetchall()
    if connection.vendor == "mysql":
        return " ".join(f"{row[names.index('key')]} {row[names.index('Extra')]}" for row in rows)
    return " ".join(str(row[-1]) for row in rows)


def test_a_poll_of_all_queues_reads_no_more_than_it_takes() -> None:
    # B15, C3
    with CaptureQueriesContext(connection) as captured:
        found = claims.pick([], [JOB], 30)
    best = Run.objects.filter(status="submitted").order_by("-priority", "run_at", "id")
    assert found == list(best.values_list("id", flat=True)[:30])
    plan = plan_of(captured.captured_queries[-1]["sql"])
    assert "run_next" in plan
    assert not any(word in plan for word in ("Sort", "filesort", "TEMP B-TREE"))


@pytest.mark.parametrize("queues", [["q1"], ["q1", "q2", "q19"]])
def test_a_poll_of_some_queues_reads_only_those(queues: list[str]) -> None:
    # B15, C3
    with CaptureQueriesContext(connection) as captured:
        found = claims.pick(queues, [JOB], 30)
    theirs = Run.objects.filter(status="submitted", queue__in=queues)
    best = theirs.order_by("-priority", "run_at", "id")
    assert found == list(best.values_list("id", flat=True)[:30])
    assert "run_ready" in plan_of(captured.captured_queries[-1]["sql"])


def test_a_poll_leaves_paused_queues_out() -> None:
    # B15
    free = Run.objects.filter(status="submitted").exclude(queue__in=["q1", "q2"])
    assert len(claims.pick([], [JOB], 8000, ["q1", "q2"])) == free.count()
    assert claims.pick(["q1", "q2"], [JOB], 5, ["q1", "q2"]) == []


def test_a_poll_for_nothing_finds_nothing() -> None:
    # B9: a process may know no job at all
    assert claims.pick([], [], 5) == claims.pick(["q1"], [], 5) == claims.pick([], [JOB], 0) == []
