"""Pages cost the same with a few rows and with many."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run
from sync_scheduler.timing.rules import every
from tests.integration.admin import rows, views

pytestmark = pytest.mark.django_db

MOST_QUERIES = 30
# Answered for as long as somebody listens.
STREAMS = frozenset({"dashboard_events"})
# A count over all runs; one over what is ready, running or of the last day has an index of its own.
COUNTED = re.compile(
    r"SELECT COUNT\(.{0,60}FROM .sync_scheduler_(run|attempt|event). WHERE"
    r" .sync_scheduler_\w+.\..namespace. = \S+$"
)


def url(model: str, name: str = "changelist", *args: object) -> str:
    return reverse(f"admin:sync_scheduler_{model}_{name}", args=args)


def fill(number: int, start: int = 0) -> None:
    for i in range(start, start + number):
        schedule = rows.schedule(f"s{i:03}", rule=every(minutes=5))
        rows.run(schedule)
        rows.failed(schedule, error=f"ValueError: {i}")
        rows.run(schedule, State.SKIPPED, reason="misfire", slot=schedule.next_run_at)
        rows.run(None, State.RUNNING, node="node-1")
        rows.node(f"node-{i}")


def count(browser: Client, address: str) -> int:
    browser.get(address)
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert browser.get(address).status_code == 200
    return len(found)


def every_count(browser: Client, about: dict[str, object]) -> dict[str, int]:
    """Queries by view, of those that show something."""
    found = {}
    for name, address in views.addresses(about).items():
        if name in STREAMS:
            continue
        with CaptureQueriesContext(connection) as captured:
            response = browser.get(address)
        if response.status_code == 200:
            found[name] = len(captured)
            asked = [query["sql"] for query in captured]
            assert not [sql for sql in asked if COUNTED.search(sql)], name
    return found


def test_no_view_takes_more_queries_for_more_rows(browser: Client) -> None:
    # D1: whatever is added later is found by its address
    rows.leader()
    fill(2)
    letter = DeadLetter.objects.order_by("id")[0]
    about: dict[str, object] = {
        "schedule": letter.schedule_id,
        "run": letter.run_id,
        "deadletter": letter.id,
    }
    every_count(browser, about)  # what Django looks up once and keeps
    few = every_count(browser, about)
    fill(20, start=2)
    many = every_count(browser, about)
    assert len(few) > 20
    assert {name: number for name, number in many.items() if number > few[name]} == {}
    assert {name: number for name, number in few.items() if number > MOST_QUERIES} == {}


@pytest.mark.parametrize("page", ["schedule", "run"])
def test_a_page_of_one_row_is_bounded_too(browser: Client, page: str) -> None:
    # D1
    schedule = rows.schedule(rule=every(minutes=5))
    run = rows.failed(schedule)
    address = url(page, "change", schedule.id if page == "schedule" else run.id)
    few = count(browser, address)
    for _ in range(40):
        rows.run(schedule)
    assert count(browser, address) <= few + 1
    assert few <= MOST_QUERIES


def test_runs_are_paged_by_their_ids_without_a_count(browser: Client) -> None:
    # D1
    Run.objects.bulk_create([_run(i) for i in range(130)])
    seen: list[str] = []
    address = url("run")
    with CaptureQueriesContext(connection) as found:
        while address:
            page = browser.get(address)
            seen += [str(row.run.id) for row in page.context["rows"]]
            address = url("run") + page.context["older"] if page.context["older"] else ""
    assert len(seen) == len(set(seen)) == 130
    assert seen == sorted(seen, reverse=True)
    assert not any(
        "COUNT(*)" in query["sql"] and "sync_scheduler_run" in query["sql"] for query in found
    )


def _run(number: int) -> Run:
    made = clock.now()
    return Run(
        job="tests.add",
        status=State.COMPLETED,
        run_at=made,
        submitted_at=made,
        started_at=made,
        finished_at=made,
        attempt=1,
    )


def test_a_search_that_no_index_knows_stops_and_offers_to_go_on(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # D1
    monkeypatch.setattr("sync_scheduler.admin.run_filter.SEARCHED", 20)
    old = rows.run(None, State.CANCELLED, node="node-9")
    Run.objects.bulk_create([_run(i) for i in range(40)])
    page = browser.get(url("run") + "?node=node-9")
    found: Callable[[], list[str]] = lambda: [str(r.run.id) for r in page.context["rows"]]  # noqa: E731
    assert found() == []
    for _ in range(3):
        if page.context["older"]:
            page = browser.get(url("run") + page.context["older"])
    assert found() == [str(old.id)]


@pytest.mark.parametrize(
    ("state", "statuses"),
    [
        ("failed", (State.FAILED, State.TIMED_OUT)),
        ("cancelled", (State.CANCELLED,)),
        ("skipped", (State.SKIPPED,)),
    ],
)
def test_what_did_not_end_well_is_found_at_once_however_long_ago_it_was(
    browser: Client, monkeypatch: pytest.MonkeyPatch, state: str, statuses: tuple[str, ...]
) -> None:
    # D1: the few failures of a week among all that completed since
    monkeypatch.setattr("sync_scheduler.admin.run_filter.SEARCHED", 20)
    old = [rows.run(None, status).id for status in (*statuses, *statuses)]
    Run.objects.bulk_create([_run(i) for i in range(40)])
    page = browser.get(f"{url('run')}?state={state}")
    assert [row.run.id for row in page.context["rows"]] == old[::-1]


def test_waiting_runs_are_found_whatever_they_wait_for(browser: Client) -> None:
    # D1
    ready = rows.run(None, State.SUBMITTED)
    held = rows.run(None, State.SUBMITTED, waiting_for="guard:1")
    rows.run()
    page = browser.get(url("run") + "?state=waiting")
    assert [row.run.id for row in page.context["rows"]] == [held.id, ready.id]
    assert {"2"} == {link["count"] for link in page.context["states"] if link["title"] == "waiting"}
