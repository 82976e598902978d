"""Submitting: in the caller's transaction, once per key, told after the commit."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from sync_scheduler import InvalidInput, KeyConflict, clock, signals
from sync_scheduler.coordination import announcer, client, queues
from sync_scheduler.coordination.keys import Keys
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake import ready as telling
from sync_scheduler.jobs import ancestry
from sync_scheduler.models import Run
from sync_scheduler.models.identity import uuid7
from sync_scheduler.store import claims
from tests.services.ports import free_port
from tests.services.server import wait_until
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = Keys("default")


@pytest.fixture
def with_redis(settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    # What this process remembers of a server that another test had.
    monkeypatch.setattr(client, "_broken_until", 0.0)
    monkeypatch.setattr(queues, "_told", {})
    return redis.Redis.from_url(redis_url, decode_responses=True)


def ready(server: redis.Redis, queue: str = "default") -> set[str]:
    assert announcer.flush(5.0)
    return set(server.zrange(KEYS.ready(queue), 0, -1))  # type: ignore[arg-type]


def test_a_submit_that_is_rolled_back_leaves_no_trace(with_redis: redis.Redis) -> None:
    # B1
    with pytest.raises(RuntimeError), transaction.atomic():
        jobs.noop.submit()
        jobs.noop.using(key="a").submit()
        jobs.noop.using(delay=60).submit()
        jobs.noop.submit_many([{}, {}])
        raise RuntimeError
    assert not Run.objects.exists()
    assert announcer.flush(5.0)
    assert with_redis.keys("*") == []


def test_a_submit_that_commits_is_pushed_after_the_commit(with_redis: redis.Redis) -> None:
    # B1, C3
    with transaction.atomic():
        run = jobs.noop.submit()
        many = jobs.noop.submit_many([{}, {}])
        assert ready(with_redis) == set()
    assert ready(with_redis) == {one.id.hex for one in (run, *many)}
    assert with_redis.smembers(KEYS.queues) == {"default"}


def test_a_delayed_submit_is_kept_apart_until_it_is_due(with_redis: redis.Redis) -> None:
    # B13
    run = jobs.noop.using(delay=60, priority=7).submit()
    assert ready(with_redis) == set()
    assert with_redis.zrange(KEYS.later("default"), 0, -1) == [f"7|{run.id.hex}"]


def test_a_raising_callback_of_somebody_else_does_not_lose_a_submit(
    with_redis: redis.Redis,
) -> None:
    # C4: nothing is pushed, but the row is there and the database poll finds it
    def broken() -> None:
        raise RuntimeError("somebody's own callback")

    with pytest.raises(RuntimeError), transaction.atomic():
        transaction.on_commit(broken)
        run = jobs.noop.submit()
    assert ready(with_redis) == set()
    assert claims.pick([], ["tests.noop"], 10) == [run.id]


def test_whatever_goes_wrong_in_telling_a_submit_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    # C4, E4: its caller has committed, and others' callbacks must come to their turn
    def broken(rows: object) -> None:
        raise RuntimeError("our own callback")

    monkeypatch.setattr(telling, "announce", broken)
    heard: list[int] = []
    with transaction.atomic():
        run = jobs.noop.submit()
        transaction.on_commit(lambda: heard.append(1))
    assert Run.objects.get().id == run.id
    assert heard == [1]
    assert jobs.noop.submit().status == "submitted"


def test_a_raising_receiver_does_not_disturb_a_submit() -> None:
    # A9
    heard = []

    def broken(run: Run, **facts: Any) -> None:
        heard.append(run.id)
        raise RuntimeError("receiver")

    signals.run_submitted.connect(broken)
    try:
        run = jobs.noop.submit()
        with pytest.raises(RuntimeError, match="undone"), transaction.atomic():
            jobs.noop.submit()
            raise RuntimeError("undone")
    finally:
        signals.run_submitted.disconnect(broken)
    assert heard == [run.id]


@pytest.mark.parametrize("state", ["closed port", "frozen"])
def test_a_redis_that_does_not_answer_costs_a_submit_nothing(
    state: str, settings: Settings, own_redis_url: str, freeze: Callable[[], None]
) -> None:
    # B11: nothing here waits for Redis, however long it would take to answer
    url = own_redis_url if state == "frozen" else f"redis://127.0.0.1:{free_port()}/0"
    settings.SYNC_SCHEDULER = {"REDIS_URL": url, "REDIS_TIMEOUT": 5.0}
    if state == "frozen":
        freeze()
    before = time.monotonic()
    runs = [jobs.noop.submit() for _ in range(20)]
    assert time.monotonic() - before < 5.0, "a submit has waited for Redis"
    assert Run.objects.count() == len(runs)
    settings.SYNC_SCHEDULER = {"REDIS_URL": url, "REDIS_TIMEOUT": 0.05}


@pytest.mark.parametrize(
    "call",
    [
        lambda: jobs.add.submit(a=1),
        lambda: jobs.add.submit(a=1, b="2"),
        lambda: jobs.add.submit(a=1, b=2, c=3),
        lambda: jobs.echo.submit(value=float("nan")),
        lambda: jobs.echo.submit(value="a\0b"),
        lambda: jobs.echo.submit(value="x" * 262_144),
        lambda: jobs.echo.submit(value=object()),
        lambda: jobs.echo.submit_many([{"value": 1}, {"value": object()}]),
        lambda: jobs.echo.using(meta={"a": object()}).submit(),
        lambda: jobs.echo.using(key="a").submit_many([{}]),
    ],
)
def test_input_that_is_refused_leaves_nothing(call: Callable[[], object]) -> None:
    # B3
    with pytest.raises(InvalidInput):
        call()
    assert not Run.objects.exists()


def test_everything_that_was_asked_for_is_stored() -> None:
    # B1, B13
    at = clock.now() + dt.timedelta(hours=1)
    run = jobs.echo.using(
        key="k", at=at, priority=5, queue="slow", max_attempts=4, timeout=9, meta={"by": "me"}
    ).submit(value=[1, "ä"])
    run = Run.objects.get(id=run.id)
    assert (run.key, run.run_at, run.priority, run.queue) == ("k", at, 5, "slow")
    assert (run.max_attempts, run.timeout_seconds, run.meta) == (4, 9, {"by": "me"})
    assert (run.input, run.trigger, run.status) == ({"value": [1, "ä"]}, "submit", "submitted")
    assert (run.attempt, run.is_finished) == (0, False)


def test_a_delay_may_be_a_number_or_a_timedelta() -> None:
    # B13
    for delay in (90, dt.timedelta(seconds=90)):
        run = jobs.noop.using(delay=delay).submit()
        assert run.run_at - run.submitted_at == dt.timedelta(seconds=90)


def test_the_same_key_gives_the_same_run() -> None:
    # B5
    first = jobs.add.using(key="sum").submit(a=1, b=2)
    again = jobs.add.using(key="sum", delay=60).submit(a=1, b=2)
    assert again.id == first.id
    assert again.run_at == Run.objects.get().run_at


@pytest.mark.parametrize("other", ["Order", "order ", "\u00f6rder", "o\u0308rder"])
def test_keys_that_a_collation_takes_for_equal_are_two(other: str) -> None:
    # B5, E8
    assert jobs.noop.using(key="order").submit().id != jobs.noop.using(key=other).submit().id


def test_the_same_key_with_something_else_is_a_conflict() -> None:
    # B5
    first = jobs.add.using(key="sum").submit(a=1, b=2)
    with pytest.raises(KeyConflict, match=str(first.id)):
        jobs.add.using(key="sum").submit(a=1, b=3)
    with pytest.raises(KeyConflict, match="another input"):
        jobs.noop.using(key="sum").submit()
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "other"),
    [
        *((1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True}), ({"a": 1}, {"b": 1})),
        *(("1", 1), ([1], [1, 2]), (None, 0), (1, 1.5), ({}, [])),
    ],
)
def test_what_is_another_input_in_json_is_another_input(given: Any, other: Any) -> None:
    # B5: Python takes True for 1
    jobs.echo.using(key="same").submit(value=given)
    with pytest.raises(KeyConflict):
        jobs.echo.using(key="same").submit(value=other)


@pytest.mark.parametrize("value", [1e23, [1e23], {"a": -1e23}, 1e22, 1.0, 0.1, 1e-7, 2**60, -0.0])
def test_a_number_is_the_same_however_the_database_writes_it(value: Any) -> None:
    # B5: PostgreSQL keeps 1e23 with all its zeros, and gives a whole number back
    first = jobs.echo.using(key="same").submit(value=value)
    assert jobs.echo.using(key="same").submit(value=value).id == first.id


def test_a_key_that_others_took_meanwhile_is_found_in_an_old_snapshot() -> None:
    # B5: MySQL with REPEATABLE READ
    if connection.vendor != "mysql":
        pytest.skip("others refuse to write on an old snapshot, or have none")

    def submit_elsewhere() -> uuid.UUID:
        try:
            return jobs.echo.using(key="same").submit(value=1).id
        finally:
            connections.close_all()

    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    try:
        with transaction.atomic(), ThreadPoolExecutor(1) as elsewhere:
            assert Run.objects.count() == 0  # from here on it looks at this moment
            first = elsewhere.submit(submit_elsewhere).result()
            assert jobs.echo.using(key="same").submit(value=1).id == first
            with pytest.raises(KeyConflict, match="another input"):
                jobs.echo.using(key="same").submit(value=2)
    finally:
        connection.close()


def test_a_key_outlives_the_renaming_of_its_job() -> None:
    # B5
    before = jobs.renamed.using(key="k").submit()
    Run.objects.filter(id=before.id).update(job="tests.former")
    assert jobs.renamed.using(key="k").submit().id == before.id
    Run.objects.filter(id=before.id).update(job="tests.nobody_knows_it")
    with pytest.raises(KeyConflict):
        jobs.renamed.using(key="k").submit()


def test_keys_that_a_collation_would_mix_up_are_different() -> None:
    # B5
    runs = {jobs.noop.using(key=key).submit().id for key in ("a", "A", "a ", "á", "a\u0301")}
    assert len(runs) == 5


def test_a_key_conflict_leaves_the_callers_transaction_usable() -> None:
    # B5
    jobs.noop.using(key="a").submit()
    with transaction.atomic():
        jobs.noop.using(key="a").submit()
        other = jobs.noop.using(key="b").submit()
    assert Run.objects.filter(id=other.id).exists()


def test_a_key_is_free_again_when_its_submit_was_rolled_back() -> None:
    # B5
    with pytest.raises(RuntimeError), transaction.atomic():
        jobs.add.using(key="a").submit(a=1, b=2)
        raise RuntimeError
    assert jobs.add.using(key="a").submit(a=3, b=4).input == {"a": 3, "b": 4}


def test_eight_processes_that_race_for_one_key_get_one_run(tmp_path: Path) -> None:
    # B5
    go = tmp_path / "go"
    code = (
        "import django; django.setup()\n"
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.testapp import jobs\n"
        "from sync_scheduler.models import Run\n"
        "Run.objects.count()\n"
        "print('ready', flush=True)\n"
        f"while not Path({str(go)!r}).exists(): time.sleep(0.001)\n"
        "for i in range(20): print(jobs.add.using(key=f'race-{i}').submit(a=i, b=i).id)\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    go.touch()
    answers = []
    for racer in racers:
        out, err = racer.communicate(timeout=120)
        assert racer.returncode == 0, err
        answers.append(out.split())
    assert Run.objects.count() == 20
    assert all(len(answer) == 20 for answer in answers)
    assert len({tuple(answer) for answer in answers}) == 1


def test_many_runs_are_one_statement() -> None:
    # B1
    with CaptureQueriesContext(connection) as captured:
        runs = jobs.add.submit_many({"a": i, "b": i} for i in range(400))
    inserts = [q["sql"] for q in captured.captured_queries if "INSERT" in q["sql"]]
    # SQLite takes no more than so many values with one statement.
    assert len(inserts) == 1 or connection.vendor == "sqlite"
    assert Run.objects.count() == 400
    stored = {run.id: run for run in Run.objects.all()}
    assert [stored[run.id].input for run in runs] == [{"a": i, "b": i} for i in range(400)]
    assert stored[runs[0].id].submitted_at == runs[0].submitted_at


def test_of_many_runs_all_or_none_are_stored() -> None:
    # B3
    with pytest.raises(InvalidInput):
        jobs.add.submit_many([{"a": 1, "b": 1}, {"a": 1}])
    assert not Run.objects.exists()
    assert jobs.add.submit_many([]) == []


def test_limits_are_written_into_each_of_many_runs() -> None:
    # B15
    runs = jobs.per_tenant.submit_many(
        [{"tenant": "one", "path": "x"}, {"tenant": "two", "path": "x"}]
    )
    gates = [Run.objects.get(id=run.id).gate for run in runs]
    assert gates == ["tests.per_tenant:one", "tests.per_tenant:two"]


def test_a_chain_that_is_too_deep_is_cut(settings: Settings) -> None:
    # B15
    settings.SYNC_SCHEDULER = {"MAX_CHAIN_DEPTH": 3}
    parent = uuid7()
    token = ancestry.current.set(ancestry.Ancestor(parent.hex, 2))
    try:
        run = jobs.noop.submit()
        assert (run.depth, run.parent) == (3, parent)
        ancestry.current.set(ancestry.Ancestor(run.id.hex, 3))
        with pytest.raises(SchedulerError, match="MAX_CHAIN_DEPTH"):
            jobs.noop.submit()
    finally:
        ancestry.current.reset(token)


def test_an_async_caller_submits_too() -> None:
    # B1
    from asgiref.sync import async_to_sync

    run = async_to_sync(jobs.add.asubmit)(a=1, b=2)
    assert Run.objects.get(id=run.id).input == {"a": 1, "b": 2}


def test_two_namespaces_share_a_database_and_do_not_see_each_other(settings: Settings) -> None:
    # C3
    here = jobs.noop.using(key="same").submit()
    settings.SYNC_SCHEDULER = {"NAMESPACE": "elsewhere"}
    there = jobs.noop.using(key="same").submit()
    assert there.id != here.id
    assert [run.id for run in Run.objects.all()] == [there.id]
    assert claims.pick([], ["tests.noop"], 10) == [there.id]
    assert claims.claim([here.id], "node", ["tests.noop"]) == []


def test_a_broken_redis_is_left_alone_for_a_moment(settings: Settings) -> None:
    # B11
    settings.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    jobs.noop.submit()
    wait_until(client.is_broken, seconds=10, what="the failure was noticed")
    assert announcer.flush(5.0)
