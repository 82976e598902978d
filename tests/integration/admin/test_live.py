"""The stream that pages follow: who may listen, what it says, and how many at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import reverse

from sync_scheduler import clock
from sync_scheduler.lifecycle import State
from sync_scheduler.live import feed, seats
from tests.integration.admin import rows
from tests.integration.admin.conftest import Login

pytestmark = pytest.mark.django_db

ADDRESS = "/admin/sync_scheduler/dashboard/events/"


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a process keeps between requests must not reach from one test into another."""
    monkeypatch.setattr(feed, "shared", feed.Feed())
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.01)
    yield
    seats._taken.clear()


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_the_stream_says_that_something_happened_and_nothing_else(browser: Client) -> None:
    # security 24
    response = browser.get(ADDRESS)
    rows.failed(rows.schedule("secret-name"), error="canary-4711", finished_at=clock.now())
    text = text_of(response)
    assert {tuple(one) for one in told(text)} == {("kind",)}
    assert {one["kind"] for one in told(text)} == {"submitted", "finished"}
    assert "canary-4711" not in text
    assert "secret-name" not in text


def test_the_stream_of_a_run_or_a_schedule_tells_of_it_alone(browser: Client) -> None:
    # B12
    schedule = rows.schedule("one")
    run = rows.run(schedule, State.RUNNING, started_at=clock.now())
    rows.run(rows.schedule("two"), State.RUNNING, started_at=clock.now())
    answers = {
        query: text_of(browser.get(ADDRESS + query, headers={"Last-Event-ID": "0-0-0"}))
        for query in (f"?run={run.id}", f"?schedule={schedule.id}", "?run=x", "?schedule=x", "")
    }
    assert [len(told(text)) for text in answers.values()] == [2, 2, 0, 0, 4]


def test_only_those_who_may_see_runs_may_listen(login: Login) -> None:
    # security 1, 23
    assert Client().get(ADDRESS).status_code == 302
    assert login("view_schedule", "view_node").get(ADDRESS).status_code == 403
    assert login("view_run").get(ADDRESS).status_code == 200


def test_listening_changes_nothing_and_is_asked_for_by_get(browser: Client) -> None:
    # security 2
    assert browser.post(ADDRESS).status_code == 405


def test_a_page_names_its_stream_to_those_who_may_listen(browser: Client, login: Login) -> None:
    # D1
    schedule = rows.schedule()
    run = rows.run(schedule, State.RUNNING)
    pages = {
        reverse("admin:sync_scheduler_dashboard_changelist"): ADDRESS,
        reverse("admin:sync_scheduler_run_changelist"): ADDRESS,
        reverse("admin:sync_scheduler_run_change", args=[run.id]): f"{ADDRESS}?run={run.id}",
        reverse(
            "admin:sync_scheduler_schedule_change", args=[schedule.id]
        ): f"{ADDRESS}?schedule={schedule.id}",
    }
    for page, stream in pages.items():
        html = browser.get(page).content.decode()
        assert re.findall(r'data-live="([^"]*)"', html) == [stream], page
    listless = login("view_schedule").get(reverse("admin:sync_scheduler_schedule_changelist"))
    assert "data-live=" not in listless.content.decode()


def test_the_page_of_an_ended_run_has_nothing_to_follow(browser: Client) -> None:
    # D1
    page = browser.get(reverse("admin:sync_scheduler_run_change", args=[rows.run().id]))
    assert "data-live=" not in page.content.decode()


def test_too_many_streams_of_one_person_are_refused(browser: Client) -> None:
    # security 23
    unread = [browser.get(ADDRESS) for _ in range(seats.PER_CALLER)]
    refused = browser.get(ADDRESS)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    text_of(unread[0])
    assert browser.get(ADDRESS).status_code == 200


def test_a_server_with_threads_streams_until_the_reader_has_gone(browser: Client) -> None:
    # B12
    response = browser.get(ADDRESS, **{"wsgi.multithread": True})  # type: ignore[arg-type]
    reading = iter(response.streaming_content)  # type: ignore[attr-defined]
    assert b"retry:" in next(reading)
    rows.run(None, State.SUBMITTED)
    assert [one["kind"] for one in told(next(reading).decode())] == ["submitted"]
    assert seats.taken() == 1
    response.close()
    assert seats.taken() == 0


def test_an_asgi_server_streams_without_holding_a_thread(operator: User) -> None:
    # B12

    async def watch() -> None:
        client = AsyncClient()
        await client.aforce_login(operator)
        response: Any = await client.get(ADDRESS)
        reading = response.streaming_content.__aiter__()
        assert b"retry:" in await anext(reading)
        await sync_to_async(rows.run)(None, State.RUNNING, started_at=clock.now())
        seen: set[str] = set()
        while {"submitted", "started"} - seen:
            seen |= {one["kind"] for one in told((await anext(reading)).decode())}
        await reading.aclose()

    async_to_sync(watch)()
    assert seats.taken() == 0
