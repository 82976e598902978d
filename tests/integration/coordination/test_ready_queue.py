"""Ready queues: ids in order, delayed ones in time, junk ignored."""

from __future__ import annotations

import dataclasses
import datetime as dt
import select
import uuid
from collections.abc import Iterator

import pytest
import redis
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import client, control, joins, queues, ready_queue
from sync_scheduler.coordination.doorbell import Doorbell, Popped
from sync_scheduler.coordination.keys import Keys
from sync_scheduler.coordination.ready_queue import Ready
from tests.services.server import wait_until

KEYS = Keys("default")


@pytest.fixture(autouse=True)
def server(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    return redis.Redis.from_url(redis_url, decode_responses=True)


def entry(priority: int = 0, seconds: float = -1.0, queue: str = "default") -> Ready:
    return Ready(
        id=uuid.uuid4().hex,
        queue=queue,
        priority=priority,
        run_at=clock.now() + dt.timedelta(seconds=seconds),
    )


def test_ids_come_by_priority_and_then_by_time() -> None:
    # B15
    low, old, new, high = entry(-100, -9), entry(0, -9), entry(0, -1), entry(100, -1)
    ready_queue.push([new, low, high, old])
    assert ready_queue.pop(["default"], 10) == [high.id, old.id, new.id, low.id]


def test_no_more_than_asked_for_is_taken_and_nothing_twice() -> None:
    # B15
    entries = [entry(seconds=-10 + i) for i in range(10)]
    ready_queue.push(entries)
    taken = [ready_queue.pop(["default"], 4) for _ in range(4)]
    assert [len(some) for some in taken] == [4, 4, 2, 0]
    assert [one for some in taken for one in some] == [e.id for e in entries]


def test_an_id_that_is_there_keeps_its_place() -> None:
    # E12: whoever pushes again, as the reconciler does, neither adds nor moves anything
    first, second = entry(seconds=-9), entry(seconds=-5)
    ready_queue.push([first, second])
    ready_queue.push([dataclasses.replace(second, priority=100)])
    assert ready_queue.sizes(["default"]) == {"default": 2}
    assert ready_queue.pop(["default"], 10) == [first.id, second.id]


def test_named_queues_are_served_in_their_order() -> None:
    # B15
    one, two = entry(queue="one"), entry(100, queue="two")
    ready_queue.push([two, one])
    assert ready_queue.pop(["one", "two"], 10) == [one.id, two.id]


def test_a_delayed_id_comes_when_it_is_due_with_its_priority() -> None:
    # B13
    late, urgent = entry(50, seconds=3600), entry(0, seconds=-1)
    ready_queue.push([late, urgent])
    taken = ready_queue.take(["default", "empty"], 2)
    assert (taken.ids, taken.is_all) == ([urgent.id], True)
    assert taken.next_seconds is not None
    assert 3500 < taken.next_seconds <= 3600
    later = entry(0, seconds=-1)
    with clock.shifted(dt.timedelta(hours=2)):
        ready_queue.push([later])
        assert ready_queue.pop(["default"], 10) == [late.id, later.id]
    assert ready_queue.take(["default"], 1).next_seconds is None


def test_pushing_again_changes_nothing(server: redis.Redis) -> None:
    # C4
    one = entry(seconds=-100)
    moved = Ready(id=one.id, queue=one.queue, priority=100, run_at=clock.now())
    ready_queue.push([one])
    before = server.zscore(KEYS.ready("default"), one.id)
    ready_queue.push([moved])
    ready_queue.push([one, one])
    assert server.zscore(KEYS.ready("default"), one.id) == before
    assert ready_queue.sizes(["default", "empty"]) == {"default": 1, "empty": 0}


def test_junk_is_ignored_and_told_once(
    server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    # C4, S7: Redis is input from outside
    ready_queue._warn_of_strangers.cache_clear()
    good = entry()
    junk = ["", "x" * 100_000, "0" * 31, "G" * 32, "0" * 32 + "\n", "'; DROP TABLE"]
    server.zadd(KEYS.ready("default"), dict.fromkeys(junk, -1.0))
    server.zadd(KEYS.later("default"), {"junk": 0, "5|": 0, "x|" + "0" * 32: 0, "1|zz": 0})
    server.zadd(KEYS.ready("default"), {b"\xff\xfe": -1.0})
    ready_queue.push([good])
    found: list[str] = []
    for _ in range(5):
        found += ready_queue.pop(["default"], 10)
    assert found == [good.id]
    assert server.zcard(KEYS.later("default")) == 0
    server.zadd(KEYS.ready("default"), {"more": 0})
    assert ready_queue.pop(["default"], 10) == []
    assert [line.levelname for line in caplog.records if "no id of a Run" in line.message] == [
        "WARNING"
    ]


@pytest.fixture
def doorbell() -> Iterator[Doorbell]:
    one = Doorbell(1.0)
    yield one
    one.close()


def _answer(doorbell: Doorbell) -> Popped | None:
    """Wait as a worker's loop does."""
    readable, _, _ = select.select([doorbell], [], [], 10)
    assert readable
    return doorbell.answer()


def test_a_doorbell_whose_server_never_answers_is_given_up(
    doorbell: Doorbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # R2, B11: a connection that is half open says nothing, and no error either
    doorbell.wait(["default"], 60)
    assert doorbell.answer() is None
    later = clock.monotonic() + 3600
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    assert doorbell.is_late()
    with pytest.raises(client.UNREACHABLE):
        doorbell.answer()
    assert not doorbell.is_waiting


def test_the_doorbell_rings_for_what_comes_and_ignores_junk(
    server: redis.Redis, doorbell: Doorbell
) -> None:
    # B15
    doorbell.wait(["other", "default"], 30)
    assert doorbell.answer() is None
    assert doorbell.is_waiting
    one = entry(priority=7)
    ready_queue.push([one])
    rung = _answer(doorbell)
    assert rung is not None
    assert (rung.id, rung.queue, doorbell.is_waiting) == (one.id, "default", False)
    server.zadd(KEYS.ready("default"), {"junk": 0})
    doorbell.wait(["default"], 30)
    assert _answer(doorbell) is None
    assert not doorbell.is_waiting


def test_the_doorbell_says_when_the_time_is_up(doorbell: Doorbell) -> None:
    # B13: then it is time to look at delayed runs
    doorbell.wait(["default"], 0.01)
    assert _answer(doorbell) is None
    assert not doorbell.is_waiting


def test_what_rang_in_vain_goes_back_to_its_place(server: redis.Redis, doorbell: Doorbell) -> None:
    # B15
    first, second = entry(seconds=-9), entry(seconds=-1)
    ready_queue.push([first, second])
    doorbell.wait(["default"], 30)
    rung = _answer(doorbell)
    assert rung is not None
    ready_queue.put_back(rung.queue, rung.id, rung.score)
    assert ready_queue.pop(["default"], 10) == [first.id, second.id]


def test_a_doorbell_whose_connection_is_cut_says_so(
    server: redis.Redis, doorbell: Doorbell
) -> None:
    # B11
    doorbell.wait(["default"], 30)
    server.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(client.UNREACHABLE):
        _answer(doorbell)
    assert not doorbell.is_waiting
    ready_queue.push([entry()])
    doorbell.wait(["default"], 30)
    assert _answer(doorbell) is not None


def test_a_server_that_forgot_its_scripts_is_told_again(server: redis.Redis) -> None:
    # C4
    one = entry()
    ready_queue.push([one])
    ready_queue.pop(["empty"], 1)
    server.script_flush()
    assert ready_queue.pop(["default"], 1) == [one.id]


def test_a_wiped_server_learns_the_queues_again(server: redis.Redis) -> None:
    # C4
    ready_queue.push([entry(queue="zebra")])
    assert queues.known(server) == ("default", "zebra")
    server.flushall()
    assert queues.known(server) == ("default",)
    with pytest.MonkeyPatch.context() as patch:
        now = clock.monotonic()
        patch.setattr(clock, "monotonic", lambda: now + 60)
        ready_queue.push([entry(queue="zebra")])
    assert queues.known(server) == ("default", "zebra")


def test_two_namespaces_share_a_server_and_do_not_see_each_other(
    settings: Settings, redis_url: str
) -> None:
    # C3
    ready_queue.push([entry()])
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url, "NAMESPACE": "elsewhere"}
    assert ready_queue.pop(["default"], 10) == []


def test_all_names_share_one_hash_tag() -> None:
    # C8: a Cluster keeps them on one server
    names = [KEYS.ready("a"), KEYS.later("b{x}"), KEYS.leader, KEYS.done("c"), KEYS.control]
    assert all(name.startswith("sync_scheduler:{default}:") for name in names)


def test_a_cancel_is_heard_and_anything_else_is_not(server: redis.Redis) -> None:
    # B8
    listener = control.Listener(5.0)
    server.publish(KEYS.control, "nobody listens yet")
    assert _heard(listener, lambda: control.tell_cancelled("ab" * 16)) == "ab" * 16
    listener.close()


def _heard(listener: control.Listener, tell: object) -> str | None:
    """Tell until it is heard: a subscription needs a moment of its own."""
    found: list[str] = []

    def try_once() -> bool:
        assert callable(tell)
        tell()
        if (said := listener.next_note()) is not None:
            found.append(said)
        return bool(found)

    wait_until(try_once, seconds=10, what="the cancel was heard")
    return found[0]


def test_who_waits_for_a_run_is_woken_and_nothing_is_left_behind(server: redis.Redis) -> None:
    # B7
    run = uuid.uuid4().hex
    with joins.interest(run, 30) as waiter:
        joins.ended([uuid.uuid4().hex, run])
        waiter.wait(30)
        assert server.exists(KEYS.done(run))
    assert int(server.ttl(KEYS.done(run))) > 0
    assert not server.exists(KEYS.done("somebody else"))
