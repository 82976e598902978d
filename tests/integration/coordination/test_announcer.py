"""Pushes that nobody waits for: sent at once after a pause, collected while many come."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterable

import pytest
import redis
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import announcer, client, queues
from sync_scheduler.coordination.courier import Courier
from sync_scheduler.coordination.keys import Keys
from sync_scheduler.coordination.ready_queue import Ready, push
from tests.services.ports import free_port
from tests.services.server import wait_until

READY = Keys("default").ready("default")


@pytest.fixture(autouse=True)
def server(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    monkeypatch.setattr(announcer, "_current", None)
    monkeypatch.setattr(announcer, "_TOGETHER_SECONDS", 0.0)
    found: redis.Redis = redis.Redis.from_url(redis_url, decode_responses=True)
    return found


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that went the ordinary way."""
    ids: list[str] = []

    def noted(entries: Iterable[Ready]) -> None:
        found = list(entries)
        ids.extend(entry.id for entry in found)
        push(found)

    monkeypatch.setattr(announcer, "push", noted)
    return ids


def entry() -> Ready:
    at = clock.now() - dt.timedelta(seconds=1)
    return Ready(id=uuid.uuid4().hex, queue="default", priority=0, run_at=at)


def announce_and_wait(one: Ready) -> None:
    announcer.announce([one])
    assert announcer.flush(30)


def test_what_comes_alone_is_sent_by_whoever_brings_it(
    server: redis.Redis, pushed: list[str]
) -> None:
    # B1: waking a thread takes as long as Redis does
    first, second, third = entry(), entry(), entry()
    announce_and_wait(first)  # this one opens the connection
    announce_and_wait(second)
    announce_and_wait(third)
    assert pushed == [first.id]
    assert set(server.zrange(READY, 0, -1)) == {first.id, second.id, third.id}


def test_it_is_there_before_the_caller_goes_on(
    server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # B1: a process that goes on computing lets no other thread have its turn for a while
    announce_and_wait(entry())
    goes_on = threading.Event()
    monkeypatch.setattr(Courier, "settle", lambda self, sent: goes_on.wait(60) and ())
    one = entry()
    announcer.announce([one])
    wait_until(lambda: server.zscore(READY, one.id) is not None, seconds=30, what="it is there")
    goes_on.set()


def test_a_connection_that_was_cut_loses_nothing(server: redis.Redis, pushed: list[str]) -> None:
    # B11
    first, second, third = entry(), entry(), entry()
    announce_and_wait(first)
    server.client_kill_filter(_type="normal", skipme=True)
    announce_and_wait(second)
    assert pushed == [first.id, second.id]
    announce_and_wait(third)
    assert pushed == [first.id, second.id]
    assert set(server.zrange(READY, 0, -1)) == {first.id, second.id, third.id}


def test_another_server_is_not_sent_what_is_meant_for_this_one(
    settings: Settings, server: redis.Redis
) -> None:
    # C3
    first, second = entry(), entry()
    announce_and_wait(first)
    settings.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{free_port()}"}
    announce_and_wait(second)
    assert server.zrange(READY, 0, -1) == [first.id]


def test_many_at_once_mix_up_no_answers(server: redis.Redis) -> None:
    # B5: some go at once and some together, and each is there once
    entries = [[entry() for _ in range(200)] for _ in range(8)]

    def work(mine: list[Ready]) -> None:
        for one in mine:
            announcer.announce([one])

    threads = [threading.Thread(target=work, args=(mine,)) for mine in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert announcer.flush(30)
    assert set(server.zrange(READY, 0, -1)) == {one.id for mine in entries for one in mine}
    last = entry()
    announce_and_wait(last)
    assert server.zscore(READY, last.id) is not None
