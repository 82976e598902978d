"""Whatever stands in Redis or comes as JSON is data: junk is dropped, and nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import client, control, election, joins, queues, ready_queue
from sync_scheduler.dispatch.leadership import Leadership
from sync_scheduler.errors import InvalidInput
from sync_scheduler.jobs import payload
from sync_scheduler.models import Run
from sync_scheduler.store import claims
from tests.testapp import jobs


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mknod, (str(self.path),)


JUNK = [b"", b"\xff\xfe\x00", b"x" * 100_000, b"[]", b"{}", b"../../etc/passwd", b"0" * 31]


@pytest.fixture
def server(settings: Settings, redis_url: str) -> redis.Redis:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    return redis.Redis.from_url(redis_url)


@pytest.mark.django_db
def test_a_malicious_pickle_stays_inert(server: redis.Redis, tmp_path: Path) -> None:  # S6
    canary = tmp_path / "canary"
    bomb = pickle.dumps(Bomb(canary))
    names = client.keys()
    server.zadd(names.ready("default"), {bomb: 0})
    server.zadd(names.later("default"), {bomb: 0})
    server.set(names.leader, bomb, px=5000)
    run = jobs.echo.submit(value=bomb.decode("latin-1").replace("\0", " "))
    Run.objects.filter(id=run.id).update(result={"pickle": list(bomb)})

    assert ready_queue.pop(["default"], 10) == []
    assert election.renew("node", 5) != "node"
    (taken,) = claims.claim([run.id], "node", {run.job})
    assert isinstance(taken.input["value"], str)
    assert not canary.exists()
    pickle.loads(bomb)  # it would have worked
    assert canary.exists()


def test_junk_in_every_key_is_ignored_and_work_goes_on(server: redis.Redis) -> None:  # S7
    names = client.keys()
    for junk in JUNK:
        server.zadd(names.ready("default"), {junk: 0})
        server.zadd(names.later("default"), {junk: 0, b"5|" + junk: 0})
        server.zadd(names.joined, {junk: 9e18})
        server.sadd(names.queues, junk)
        server.rpush(names.done("ab" * 16), junk)
        server.publish(names.control, junk)
        server.publish(names.dispatch, junk)
    good = ready_queue.Ready(id="cd" * 16, queue="default", priority=-100, run_at=clock.now())
    ready_queue.push([good])

    found: list[str] = []
    for _ in range(len(JUNK) + 2):
        found += ready_queue.pop(["default"], 4)
    assert found == ["cd" * 16]
    assert server.zcard(names.ready("default")) == server.zcard(names.later("default")) == 0
    assert "default" in queues.known(client.client())
    joins.ended(["ab" * 16])
    listener = control.Listener(0.05)
    assert listener.next_note() is None
    listener.close()


@pytest.mark.parametrize("what", ["for ever", "for a year", "another type"])
@pytest.mark.django_db
def test_a_leaders_key_that_no_leader_wrote_keeps_nobody_from_leading(
    server: redis.Redis, what: str
) -> None:  # S7, C4
    if what == "another type":
        server.rpush(client.keys().leader, "x")
    else:
        server.set(
            client.keys().leader, "nobody", ex=366 * 86_400 if what == "for a year" else None
        )
    leadership = Leadership("node")
    leadership.step()
    assert leadership.term is not None
    leadership.resign("the test is over")


# ---------------------------------------------------------------------------- S19, S30: JSON

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@hypothesis_settings(max_examples=200, deadline=None, database=None)
@given(anything)
def test_what_is_accepted_comes_back_as_it_was_and_the_rest_is_refused(value: Any) -> None:  # S19
    try:
        clean, text = payload.encode(value, "The input", 10_000)
    except InvalidInput:
        return
    assert json.loads(text) == clean
    assert len(text.encode()) <= 10_000
    plain = {type(None), bool, int, float, str, list, dict}
    assert _types(json.loads(text)) <= plain


def _types(value: Any) -> set[type]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value)}.union(*(_types(one) for one in inner))


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**63, -(2**70), "\0", "\ud800", b"x", {1: 2}, object()],
    ids=repr,
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:  # S19
    with pytest.raises(InvalidInput):
        payload.normalise({"value": value}, "The input", 1000)


def test_nesting_and_size_are_bounded() -> None:  # S19
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested deeper"):
        payload.normalise(deep, "The input", 10**9)
    with pytest.raises(InvalidInput, match="at most"):
        payload.normalise("x" * 1001, "The input", 1000)


@pytest.mark.django_db
def test_of_duplicate_keys_the_last_one_counts_everywhere_alike() -> None:  # S19
    value = json.loads('{"a": 1, "a": 2}')
    run = jobs.echo.submit(value=value)
    run.refresh_from_db()
    assert run.input["value"] == {"a": 2}


@pytest.mark.django_db
def test_what_looks_like_an_object_stays_a_dictionary() -> None:  # S30
    value = {"__class__": "os.system", "py/object": "os.system", "__reduce__": ["os.system", "x"]}
    run = jobs.echo.submit(value=value)
    (taken,) = claims.claim([run.id], "node", {run.job})
    assert taken.input["value"] == value
    assert type(taken.input["value"]) is dict
