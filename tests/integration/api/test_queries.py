"""The number of queries does not grow with the number of rows, and indexes are used."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sync_scheduler.live import feed
from sync_scheduler.models import Schedule
from sync_scheduler.store.reports import changes, runs, schedules, status
from tests.integration.api.rows import a_node, a_run, a_schedule, an_attempt, many_runs

pytestmark = pytest.mark.django_db


def number_of_queries(action: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        action()
    return len(captured)


def fill(size: int) -> None:
    for number in range(size):
        schedule = a_schedule(f"s{size}-{number}", job="tests.echo")
        a_node(f"n{size}-{number}")
        run = a_run(
            "tests.echo", "failed", schedule=schedule, error="e", input={"secret": "canary"}
        )
        an_attempt(run)
    many_runs(size * 20, queue=f"q{size}")


@pytest.mark.parametrize(
    ("action", "most"),
    [
        (status.snapshot, 8),
        (lambda: schedules.page(limit=500), 1),
        (lambda: runs.history(), 2),
        (lambda: changes.since(changes.current_position()), 12),
    ],
)
def test_a_report_takes_the_same_few_queries_for_few_and_for_many_rows(
    action: Callable[[], object], most: int
) -> None:
    # D2
    fill(2)
    few = number_of_queries(action)
    fill(20)
    assert number_of_queries(action) <= few
    assert few <= most


@pytest.mark.parametrize(
    "address", ["v1/status", "v1/schedules", "v1/schedules/s2-0/history", "metrics", "v1/events"]
)
def test_an_endpoint_takes_the_same_few_queries_for_few_and_for_many_rows(
    address: str, token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # D2
    monkeypatch.setattr("sync_scheduler.api.exposition._KEEP_FACTOR", 0.0)

    def ask() -> int:
        # What callers share between them is looked up anew, or the first may find it there.
        monkeypatch.setattr(feed, "shared", feed.Feed(changes.EVERYTHING))
        return number_of_queries(lambda: token.get(f"/scheduler/{address}"))

    fill(2)
    few = ask()
    fill(20)
    assert ask() <= few
    assert 0 < few <= 15


PAYLOAD = re.compile(r"sync_scheduler_run.\..(input|result|meta)\b")


def statements() -> list[str]:
    """What is asked about Runs for the status, a list, a history and a look at changes."""
    with CaptureQueriesContext(connection) as captured:
        status.snapshot()
        schedules.page()
        runs.history(Schedule.objects.first())
        changes.since(changes.current_position())
    return [query["sql"] for query in captured if "sync_scheduler_run" in query["sql"]]


def test_no_report_reads_payloads_that_it_does_not_show() -> None:
    # D2: an input may have 256 KiB
    a_schedule("daily")
    a_run("tests.noop", "failed", error="e")
    asked = statements()
    assert len(asked) > 8
    assert not [sql for sql in asked if PAYLOAD.search(sql)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="others choose by the size of the table")
def test_no_report_reads_the_whole_history() -> None:
    # D2
    a_schedule("daily")
    many_runs(100)
    plans = []
    for sql in statements():
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            plans += [(row[3], sql) for row in cursor.fetchall()]
    assert plans
    read = [plan for plan, _ in plans if "sync_scheduler_run" in plan]
    assert read
    assert not [plan for plan in read if plan.startswith("SCAN") and "USING" not in plan]
