"""What is asked all the time is answered by an index, however many rows there are."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from sync_scheduler import clock
from sync_scheduler.models import Run
from sync_scheduler.store import claims, gates, nodes, queues, waiting
from sync_scheduler.store.reports import status
from tests.integration.store.runs import JOB

TROUBLED = ("failed", "timed_out", "cancelled", "skipped")

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _many_rows(transactional_db: None) -> None:
    """Far more finished runs than ready, running or waiting ones; as after a busy week."""
    if connection.vendor != "postgresql":
        pytest.skip("plans are read where they can be read as data")
    now = clock.now()
    common = {"job": JOB, "submitted_at": now}

    def run(i: int) -> Run:
        at = now - dt.timedelta(seconds=i)
        if i % 100 == 0:
            return Run(status="submitted", run_at=at, queue=f"q{i % 5}", **common)
        if i % 100 == 1:
            return Run(status="running", run_at=at, node=f"node-{i % 3}", gate="g", **common)
        if i % 100 == 2:
            return Run(status="submitted", run_at=at, waiting_for="gate:g", gate="g", **common)
        if i % 1000 == 3:
            return Run(status=TROUBLED[i // 1000 % 4], run_at=at, finished_at=at, **common)
        return Run(status="completed", run_at=at, finished_at=at, **common)

    Run.objects.bulk_create((run(i) for i in range(8000)), batch_size=2000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE sync_scheduler_run")


def indexes_of(action: Callable[[], Any]) -> tuple[set[str], bool]:
    """The indexes that the action's queries on runs use, and whether one reads the whole table."""
    with CaptureQueriesContext(connection) as captured:
        action()
    used: set[str] = set()
    scans = False

    def walk(plan: dict[str, Any]) -> None:
        nonlocal scans
        if "Index Name" in plan:
            used.add(plan["Index Name"])
        if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] == "sync_scheduler_run":
            scans = True
        for below in plan.get("Plans", ()):
            walk(below)

    statements = [
        q["sql"]
        for q in captured.captured_queries
        if ("sync_scheduler_run" in q["sql"] and q["sql"].lstrip()[:6] in {"SELECT", "WITH p"})
        or q["sql"].lstrip().startswith("WITH")
    ]
    assert statements
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute("EXPLAIN (FORMAT JSON) " + statement.replace("%", "%%"))
            (answer,) = cursor.fetchone()
            walk((json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"])
    return used, scans


@pytest.mark.parametrize(
    ("queues", "index"), [([], "run_next"), (["q0"], "run_ready"), (["q0", "q1"], "run_ready")]
)
def test_the_poll_uses_an_index_of_ready_runs(queues: list[str], index: str) -> None:
    # C3
    used, scans = indexes_of(lambda: claims.pick(queues, [JOB], 50))
    assert (used, scans) == ({index}, False)


def test_the_claim_goes_by_primary_key() -> None:
    # C3
    ids = claims.pick([], [JOB], 5)
    used, scans = indexes_of(lambda: claims.claim(ids, "node", [JOB]))
    assert any("pkey" in name for name in used)
    assert not scans


def test_the_sweep_uses_the_index_of_running_runs() -> None:
    # C1
    used, scans = indexes_of(nodes.silences)
    assert ("run_running" in used, scans) == (True, False)
    used, scans = indexes_of(lambda: nodes.holdings("node-1"))
    assert ("run_running" in used, scans) == (True, False)


def test_what_waits_is_found_by_its_index() -> None:
    # A11
    with transaction.atomic():
        used, scans = indexes_of(lambda: waiting.promote(guards=[], gates=["g"]))
    assert ("run_waiting" in used, scans) == (True, False)


def test_what_is_waited_for_is_found_without_reading_all_that_wait() -> None:
    # A11, B15: a limit may hold back a million Runs
    with CaptureQueriesContext(connection) as captured:
        assert waiting.names_waited_for() == ["gate:g"]
    read = []

    def walk(plan: dict[str, Any]) -> None:
        read.append(plan["Actual Rows"])
        for below in plan.get("Plans", ()):
            walk(below)

    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + captured.captured_queries[0]["sql"])
        (answer,) = cursor.fetchone()
    walk((json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"])
    assert max(read) <= 2


def test_what_counts_against_a_limit_is_found_by_its_index() -> None:
    # B15
    run_id = claims.pick([], [JOB], 1)[0]
    Run.objects.filter(id=run_id).update(gate="g")
    limit = {JOB: gates.Limit(concurrency=500, rate=None)}
    used, scans = indexes_of(lambda: gates.claim_through_gates([run_id], "node", limit))
    assert ("run_gate" in used, scans) == (True, False)


def test_what_waits_in_a_queue_is_counted_along_indexes() -> None:
    # S25
    for number in (5, 10_000):
        used, scans = indexes_of(lambda number=number: queues.holds_more_than("q0", number))  # type: ignore[misc]
        assert used <= {"run_ready", "run_parked"}
        assert ("run_ready" in used, scans) == (True, False)
    used, scans = indexes_of(lambda: queues.holds_more_than("default", 50))
    assert (used, scans) == ({"run_ready", "run_parked"}, False)


def test_old_runs_are_found_by_when_they_ended() -> None:
    # B10
    horizon = clock.now() - dt.timedelta(seconds=7900)
    old = Run.objects.filter(finished_at__lt=horizon).order_by("finished_at")
    used, scans = indexes_of(lambda: list(old.values_list("id")[:100]))
    assert ("run_finished" in used, scans) == (True, False)


@pytest.mark.parametrize("ending", TROUBLED)
def test_what_did_not_end_well_is_found_by_its_own_index(ending: str) -> None:
    # D1
    newest = Run.objects.filter(status=ending).order_by("-id").values_list("id")
    used, scans = indexes_of(lambda: list(newest[:51]))
    assert (used, scans) == ({"run_troubled"}, False)


def test_the_last_day_is_counted_without_reading_its_rows() -> None:
    # D2
    start = clock.now() - dt.timedelta(seconds=200)
    with CaptureQueriesContext(connection) as captured:
        found = status.ended_since(start)
    assert found["completed"] > 150
    with transaction.atomic(), connection.cursor() as cursor:
        # A table as small as this one is read as quickly in other ways.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("EXPLAIN " + captured.captured_queries[-1]["sql"])
        plan = " ".join(line for (line,) in cursor.fetchall())
    assert "Index Only Scan using run_finished" in plan
