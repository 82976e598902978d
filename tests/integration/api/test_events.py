"""What happens, as server-sent events."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient, Client

from sync_scheduler import clock
from sync_scheduler.live import feed, seats, stream
from sync_scheduler.store.reports import changes
from sync_scheduler.store.reports.changes import Position
from tests.integration.api.conftest import TOKEN
from tests.integration.api.rows import HOUR, a_run, a_schedule, an_attempt, an_event
from tests.integration.api.test_access import Staff

# A stream reads in other threads than the one that opened it.
pytestmark = pytest.mark.django_db

ADDRESS = "/scheduler/v1/events"
LONG_AGO = "0-0-0"


def frames(text: str) -> list[dict[str, str]]:
    """The frames of a stream as fields by name; comments are left out."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        if lines:
            found.append(dict(line.split(": ", 1) for line in lines))
    return found


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(frame["data"]) for frame in frames(text) if "data" in frame]


def text_of(response: Any) -> str:
    """A whole answer, to its end."""
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content).decode()


def now_position(client: Client) -> str:
    return next(f["id"] for f in frames(text_of(client.get(ADDRESS))) if "id" in f)


def since(client: Client, position: str, **query: Any) -> list[dict[str, Any]]:
    return told(text_of(client.get(ADDRESS, query, headers={"Last-Event-ID": position})))


# --- under WSGI, where nobody else could be served meanwhile: a short answer


def test_a_server_with_one_thread_answers_shortly_and_says_when_to_come_back(token: Client) -> None:
    # B12: a stream would hold the only thread
    response = token.get(ADDRESS)
    assert response["Content-Type"].startswith("text/event-stream")
    assert "no-cache" in response["Cache-Control"]
    (frame,) = frames(text_of(response))
    assert int(frame["retry"]) >= 1000
    assert Position.parse(frame["id"]) is not None


def test_what_happens_between_question_and_answer_is_told(token: Client) -> None:
    # B12
    response = token.get(ADDRESS)
    run = a_run()
    assert [one["run"] for one in told(text_of(response))] == [str(run.id)]


def test_a_short_answer_tells_nothing_twice(token: Client) -> None:
    # B12
    position = now_position(token)
    a_run()
    assert len(since(token, position)) == 1


def test_one_caller_cannot_ask_for_everything_at_once(token: Client) -> None:
    # S23
    unread = [token.get(ADDRESS) for _ in range(seats.PER_CALLER)]
    assert token.get(ADDRESS).status_code == 429
    text_of(unread[0])
    assert token.get(ADDRESS).status_code == 200


def test_a_stream_that_is_collected_while_another_begins_stops_nobody() -> None:
    # S23: the collector may run anywhere, also in the thread that just looks for a seat
    abandoned = seats.take("somebody", 60) or 0
    assert abandoned

    class Caller(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            seats.give_back(abandoned)
            return str.__eq__(self, other)

    found: list[int | None] = []
    thread = threading.Thread(
        target=lambda: found.append(seats.take(Caller("else"), 60)), daemon=True
    )
    thread.start()
    thread.join(30)
    assert found
    assert found[0] is not None
    assert seats.taken() == 1


def test_what_happened_since_a_position_is_told_in_order(token: Client) -> None:
    # B12
    position = now_position(token)
    run = a_run("tests.noop", "running", attempt=2, node="n1")
    an_attempt(run, "retried", retry_at=clock.now())
    an_event(run, "heartbeat", progress=0.5, message="half of canary-4711")
    done = a_run("tests.add", "completed", attempt=1)
    a_run("tests.add", "skipped")
    found = since(token, position)
    kinds = {(one["kind"], one["run"]) for one in found}
    assert {
        ("submitted", str(run.id)),
        ("started", str(run.id)),
        ("retry", str(run.id)),
        ("progress", str(run.id)),
        ("finished", str(done.id)),
    } <= kinds
    assert [one["kind"] for one in found].count("skipped") == 1
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    (progress,) = [one for one in found if one["kind"] == "progress"]
    assert progress["progress"] == 0.5
    (finished,) = [one for one in found if one["kind"] == "finished"]
    assert (finished["status"], finished["job"]) == ("completed", "tests.add")


def test_what_lies_before_the_position_is_not_told(token: Client) -> None:
    # B12
    old = a_run(status="completed", finished_at=clock.now() - HOUR, submitted_at=clock.now() - HOUR)
    assert str(old.id) not in {
        one["run"] for one in since(token, now_position(token)) if one["kind"] == "finished"
    }


@pytest.mark.parametrize("position", [LONG_AGO, "99999999999999-1-1", "x", "1-2", "-1-1-1", "é"])
def test_a_senseless_position_is_harmless(position: str, token: Client) -> None:
    # S23
    a_run(status="completed", finished_at=clock.now() - HOUR)
    assert since(token, position) is not None


def test_one_run_is_watched_from_where_it_stands(token: Client) -> None:
    # B12: it may have ended between the page and the stream
    run = a_run(status="completed")
    a_run(status="completed")
    (state,) = told(text_of(token.get(ADDRESS, {"run": str(run.id)})))[:1]
    assert (state["kind"], state["run"], state["status"]) == ("state", str(run.id), "completed")


def test_only_the_changes_of_one_run_or_one_schedule_are_told_on_request(token: Client) -> None:
    # B12
    position = now_position(token)
    schedule = a_schedule("daily")
    mine = a_run(status="completed", schedule=schedule, schedule_name="daily")
    a_run(status="completed")
    for query in ({"run": str(mine.id)}, {"schedule": "daily"}):
        found = since(token, position, **query)
        assert {one["run"] for one in found} == {str(mine.id)}
    assert {one["schedule"] for one in since(token, position, run=str(mine.id))} == {"daily"}


@pytest.mark.parametrize("query", [{"run": "x"}, {"run": "0" * 32}, {"schedule": "nothing"}])
def test_watching_what_does_not_exist_is_404(query: dict[str, str], token: Client) -> None:
    # B12
    assert token.get(ADDRESS, query).status_code == 404


def test_the_stream_carries_no_payload(token: Client) -> None:
    # S24, S11
    position = now_position(token)
    run = a_run(
        "tests.echo",
        "failed",
        input={"secret": "canary-1", "value": "canary-2"},
        result="canary-3",
        error="canary-4",
        meta={"x": "canary-5"},
        key="canary-6",
        progress_message="canary-7",
    )
    an_attempt(run, "retried", error="canary-8", traceback="canary-9")
    an_event(run, "heartbeat", progress=0.1, message="canary-10")
    text = text_of(token.get(ADDRESS, headers={"Last-Event-ID": position}))
    assert str(run.id) in text
    assert "canary" not in text


def test_schedules_are_named_only_to_those_who_may_see_them(staff: Staff) -> None:
    # S24
    run_only, both = staff("view_run"), staff("view_run", "view_schedule")
    position = now_position(both)
    a_run(status="completed", schedule=a_schedule("secret-project"), schedule_name="secret-project")
    assert {one["schedule"] for one in since(both, position)} == {"secret-project"}
    assert {one["schedule"] for one in since(run_only, position)} == {None}
    assert run_only.get(ADDRESS, {"schedule": "secret-project"}).status_code == 403


# --- under WSGI with threads: a stream for a few, short answers for the others


def ask_a_threaded_server(client: Client) -> Any:
    return client.get(ADDRESS, **{"wsgi.multithread": True})  # type: ignore[arg-type]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("quick")
def test_a_server_with_threads_streams(token: Client) -> None:
    # B12
    reading = iter(ask_a_threaded_server(token).streaming_content)
    assert b"retry:" in next(reading)
    first = a_run()
    assert [one["run"] for one in told(next(reading).decode())] == [str(first.id)]
    second = a_run(status="completed")
    seen: list[str] = []
    while seen.count(str(second.id)) < 2:
        seen += [one["run"] for one in told(next(reading).decode())]
    assert set(seen) == {str(second.id)}


@pytest.mark.usefixtures("quick")
def test_a_stream_that_holds_a_thread_ends_soon(
    token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S23
    assert stream.THREAD_LIFETIME_SECONDS < stream.LIFETIME_SECONDS
    monkeypatch.setattr(stream, "THREAD_LIFETIME_SECONDS", 1.0)
    monkeypatch.setattr(stream, "THREAD_HEARTBEAT_SECONDS", 0.0)
    text = text_of(ask_a_threaded_server(token))
    assert text.count(": alive") >= 1
    assert seats.taken() == 0


def test_only_a_few_threads_are_held_and_the_others_get_short_answers(
    token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S23
    monkeypatch.setattr(seats, "HOLDING_A_THREAD", 2)
    held = [ask_a_threaded_server(token) for _ in range(2)]
    (frame,) = frames(text_of(ask_a_threaded_server(token)))
    assert "retry" in frame
    assert [one.status_code for one in held] == [200, 200]


# --- under ASGI: a stream


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async_to_sync(test)()


async def ask() -> Any:
    return await AsyncClient().get(ADDRESS, headers={"Authorization": f"Bearer {TOKEN}"})


async def open_stream() -> Any:
    response = await ask()
    assert response.status_code == 200, response.content
    assert response.streaming
    return response


def parts(response: Any) -> Any:
    return response.streaming_content.__aiter__()


@pytest.mark.usefixtures("quick")
def test_a_stream_tells_what_happens_while_it_is_open() -> None:
    # B12

    async def watch() -> None:
        response = await open_stream()
        reading = parts(response)
        assert b"retry:" in await anext(reading)
        run = await sync_to_async(a_run)("tests.noop", "running", attempt=1)
        seen: list[dict[str, Any]] = []
        while {"submitted", "started"} - {one["kind"] for one in seen}:
            seen += told((await anext(reading)).decode())
        assert {one["run"] for one in seen} == {str(run.id)}
        marks = [(one["kind"], one["run"], one["attempt"]) for one in seen]
        assert len(marks) == len(set(marks)), "told twice in one stream"
        await reading.aclose()

    in_a_loop(watch)


@pytest.mark.usefixtures("quick")
def test_a_quiet_stream_gives_signs_of_life_and_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # S23
    monkeypatch.setattr(stream, "LIFETIME_SECONDS", 2.0)
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.02)

    async def watch() -> None:
        response = await open_stream()
        text = [part.decode() async for part in parts(response)]
        assert any(": alive" in one for one in text)
        assert all(not told(one) for one in text)

    in_a_loop(watch)
    assert seats.taken() == 0


def test_one_caller_cannot_take_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    # S23
    monkeypatch.setattr(seats, "PER_CALLER", 2)

    async def watch() -> None:
        first, _ = [await open_stream() for _ in range(2)]
        refused = await ask()
        assert refused.status_code == 429
        assert refused["Retry-After"]
        assert "error" in refused.json()
        first.close()
        await open_stream()

    in_a_loop(watch)
    assert seats.taken() == 2


def test_two_hundred_streams_meet_the_limit_of_the_process() -> None:
    # S23
    permission = Permission.objects.get(codename="view_run")
    users = [User.objects.create_user(f"u{number}", is_staff=True) for number in range(40)]
    for user in users:
        user.user_permissions.add(permission)

    async def watch() -> list[int]:
        answers = []
        for user in users:
            client = AsyncClient()
            await sync_to_async(client.force_login)(user)
            for _ in range(5):
                answers.append((await client.get(ADDRESS)).status_code)
        return answers

    answers: list[int] = async_to_sync(watch)()
    assert answers.count(200) == seats.IN_ALL == 100
    assert answers.count(429) == 100
    assert seats.taken() == seats.IN_ALL


def test_a_stream_that_nobody_reads_gives_its_seat_back_when_it_is_closed() -> None:
    # S23

    async def watch() -> None:
        response = await open_stream()
        assert seats.taken() == 1
        response.close()
        response.close()
        assert seats.taken() == 0

    in_a_loop(watch)


def test_a_seat_whose_holder_vanished_is_free_after_the_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # S23
    monkeypatch.setattr(seats, "PER_CALLER", 1)
    assert seats.take("somebody", lifetime_seconds=-1.0) is not None
    assert seats.take("somebody", lifetime_seconds=60.0) is not None
    assert seats.take("somebody", lifetime_seconds=60.0) is None


@pytest.mark.usefixtures("quick")
def test_a_reader_who_is_too_slow_is_told_so_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    # S23: what is kept for readers has a fixed size
    monkeypatch.setattr(feed, "_RING", 3)

    async def watch() -> None:
        monkeypatch.setattr(feed, "shared", feed.Feed())
        response = await open_stream()
        reading = parts(response)
        await anext(reading)
        for _ in range(4):
            await sync_to_async(a_run)()
        text = "".join([part.decode() async for part in reading])
        assert frames(text)[-1]["event"] == "lost"

    in_a_loop(watch)
    assert seats.taken() == 0


@pytest.mark.usefixtures("quick")
def test_many_watchers_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    # S23
    monkeypatch.setattr(feed, "LOOK_SECONDS", 3600.0)
    shared = feed.Feed()
    looks = 0
    look = changes.current_position

    def counted() -> Position:
        nonlocal looks
        looks += 1
        return look()

    monkeypatch.setattr(changes, "current_position", counted)
    for _ in range(50):
        shared.after(shared.join().last)
    assert looks == 1
