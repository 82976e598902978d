"""Where ids come from when there are very many queues."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Generator, Sequence

import pytest
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import client, queues, ready_queue
from sync_scheduler.coordination.ready_queue import Ready
from sync_scheduler.processes.source import Source
from tests.services.server import wait_until

NAMES = tuple(f"q{number}" for number in range(40))


@pytest.fixture
def source(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[Source, None, None]:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    made = Source(NAMES, lambda: None)
    yield made
    made.stop()


def push(queue: str, seconds: float = -1.0) -> uuid.UUID:
    run = uuid.uuid4()
    at = clock.now() + dt.timedelta(seconds=seconds)
    ready_queue.push([Ready(id=run.hex, queue=queue, priority=0, run_at=at)])
    return run


def test_queues_that_are_named_late_are_served_after_those_before_them(source: Source) -> None:
    # B15
    last, first = push("q35"), push("q3")
    assert source.ids(10) == [first, last]
    while source.has_hints():  # also when the names of queues have come in between
        assert source.ids(10) == []


def test_no_more_than_asked_for_is_taken_across_all_of_them(source: Source) -> None:
    # B15
    wanted = [push("q1"), push("q2"), push("q30"), push("q39")]
    assert source.ids(3) == wanted[:3]
    assert source.has_hints()
    assert source.ids(3) == wanted[3:]


def test_the_nearest_delayed_run_of_all_of_them_is_waited_for(source: Source) -> None:
    # B13
    now = clock.now()
    with pytest.MonkeyPatch.context() as patch:
        # It stands still, or on a busy machine the run may be due before anybody has asked.
        patch.setattr(clock, "now", lambda: now)
        push("q2", seconds=300)
        soon = push("q38", seconds=0.2)
        while not source.pipes():
            # The names of queues that come in between are news, and then it is asked again.
            assert source.ids(10) == []
            source.wait_for_one()
    (bell,) = source.pipes()
    while source.pipes():
        source.hear()
    assert not bell.is_waiting
    assert source.ids(10) == [soon]


def test_a_queue_that_comes_while_redis_is_asked_for_others_is_not_forgotten(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # B11
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    ask, pushed = ready_queue.take, list[uuid.UUID]()

    def take(names: Sequence[str], count: int) -> ready_queue.Taken:
        answer = ask(names, count)
        pushed.append(push("fresh"))
        wait_until(lambda: "fresh" in serving.queue_names(), seconds=30, what="the new queue")
        return answer

    serving = Source((), lambda: None)
    try:
        wait_until(lambda: serving.queue_names() == ("default",), seconds=30, what="a first look")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ready_queue, "take", take)
            assert serving.ids(10) == []
        wait_until(serving.has_hints, seconds=30, what="a hint")
        assert serving.ids(10) == pushed
    finally:
        serving.stop()
