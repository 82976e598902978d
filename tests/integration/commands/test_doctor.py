"""`scheduler doctor` finds what is wrong and says what to do."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

from sync_scheduler import clock
from sync_scheduler.coordination import client
from sync_scheduler.models import Schedule
from tests.integration.api.rows import HOUR, a_leader, a_node, a_run, a_schedule
from tests.integration.commands.shell import failing, scheduler, scheduler_json
from tests.services import ports
from tests.services.server import Server
from tests.testapp import jobs  # noqa: F401  # the jobs that nodes know

pytestmark = pytest.mark.django_db

JOBS = ["tests.noop", "tests.add"]


@pytest.fixture
def healthy() -> None:
    """A leader that works, and a schedule for it."""
    a_node("n1", jobs=JOBS)
    a_leader("n1")
    a_schedule("daily", job="tests.noop")


@pytest.fixture(autouse=True)
def no_client_is_kept() -> Iterator[None]:
    """A test's Redis settings must not meet the connection of another's."""
    yield
    client._clients.clear()


def levels(*words: str) -> dict[str, str]:
    """The worst level of each check, whether the command fails or not."""
    order = {"ok": 0, "warning": 1, "error": 2}
    found: dict[str, str] = {}
    for finding in findings(*words):
        before = found.get(finding["check"], "ok")
        found[finding["check"]] = max(before, finding["level"], key=order.__getitem__)
    return found


def findings(*words: str) -> list[dict[str, Any]]:
    try:
        text = scheduler("doctor", "--json", *words)
    except CommandError:
        text = failing("doctor", "--json", *words)[0]
    document = json.loads(text)
    assert document["ok"] == all(one["level"] != "error" for one in document["findings"])
    return list(document["findings"])


def message_of(check: str) -> str:
    (worst,) = [one for one in findings() if one["check"] == check and one["level"] != "ok"]
    assert worst["hint"]
    return str(worst["message"])


@pytest.mark.usefixtures("healthy")
def test_a_healthy_scheduler_has_nothing_to_complain_of() -> None:
    # D3, C7
    document = scheduler_json("doctor")
    assert document["ok"] is True
    assert {one["level"] for one in document["findings"]} == {"ok"}
    checked = {one["check"] for one in document["findings"]}
    expected = {"settings", "redis", "migrations", "clock", "leader", "nodes", "queues", "jobs"}
    assert expected <= checked
    assert ("sqlite" in checked) == (connection.vendor == "sqlite")


def test_nobody_who_dispatches_is_an_error_where_schedules_wait_for_it() -> None:
    # C7
    a_schedule("daily")
    found = levels()
    assert (found["leader"], found["nodes"]) == ("error", "error")
    printed, message = failing("doctor")
    assert message == "2 errors found."
    assert "runscheduler" in printed


def test_silence_where_nothing_is_to_be_done_is_no_error() -> None:
    # C7
    found = levels()
    assert (found["leader"], found["nodes"]) == ("warning", "warning")
    assert scheduler_json("doctor")["ok"] is True


@pytest.mark.parametrize(
    "settings", [{"LEADER_LEASE": -1}, {"NO_SUCH": 1}, {"DATABASE": "nowhere"}]
)
def test_a_bad_setting_is_found_even_though_nothing_else_can_start(
    settings: dict[str, object],
) -> None:
    # C7
    with override_settings(SYNC_SCHEDULER=settings):
        assert levels() == {"settings": "error"}
        assert next(iter(settings)) in findings()[0]["message"]
        assert failing("status")[1]


def test_a_missing_migration_is_found() -> None:
    # C7
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(None).graph.leaf_nodes("sync_scheduler")
    recorder.record_unapplied(*newest)
    assert levels()["migrations"] == "error"
    assert newest[1] in message_of("migrations")


@pytest.mark.usefixtures("healthy")
def test_redis_is_described_without_its_password(redis_url: str) -> None:
    # C7, security 14
    with_password = redis_url.replace("redis://", "redis://somebody:canary-4711@")
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": with_password}):
        shown = failing("doctor")[0]
    assert "canary-4711" not in shown
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url, "REDIS_TIMEOUT": 5.0}):
        (found,) = [one for one in findings() if one["check"] == "redis"]
    assert found["level"] == "ok"
    assert "version" in found["message"]


@pytest.mark.usefixtures("healthy")
def test_a_redis_that_drops_keys_is_warned_about(redis_server: Server, redis_url: str) -> None:
    # C7
    with redis.Redis(host=redis_server.host, port=redis_server.port) as direct:
        direct.config_set("maxmemory-policy", "volatile-lru")
        try:
            with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url, "REDIS_TIMEOUT": 5.0}):
                assert "volatile-lru" in message_of("redis")
        finally:
            direct.config_set("maxmemory-policy", "noeviction")


@pytest.mark.usefixtures("healthy")
def test_a_redis_that_does_not_answer_is_an_error() -> None:
    # C7
    url = f"redis://127.0.0.1:{ports.free_port()}/0"
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": url}):
        assert levels()["redis"] == "error"
        assert "does not answer" in message_of("redis")


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no clock of its own")
@pytest.mark.usefixtures("healthy")
def test_a_clock_that_is_off_the_databases_is_an_error() -> None:
    # A2
    with clock.shifted(dt.timedelta(seconds=30)):
        assert levels()["clock"] == "error"


@pytest.mark.usefixtures("healthy")
def test_a_node_whose_clock_is_off_is_named() -> None:
    # A2
    a_node("skewed", clock_offset=-7.5, jobs=JOBS)
    assert "'skewed'" in message_of("clock")


@pytest.mark.usefixtures("healthy")
def test_nodes_of_different_versions_are_noticed() -> None:
    # C2
    a_node("older", version="0.0.1", jobs=JOBS)
    assert "version" in message_of("nodes")


def test_nodes_with_different_editions_of_the_time_zones_are_noticed() -> None:
    # L10
    a_node("older", tzdata="2020a", jobs=JOBS)
    a_node("newer", tzdata="2026b", jobs=JOBS)
    assert "tzdata" in message_of("nodes")


def test_runs_in_a_queue_that_nobody_serves_are_an_error() -> None:
    # B15
    a_node("n1", queues=["default"], jobs=JOBS)
    a_leader("n1")
    a_run(queue="mail")
    assert levels()["queues"] == "error"
    assert "'mail'" in message_of("queues")


def test_a_queue_of_a_job_that_nobody_serves_is_a_warning_while_it_is_empty() -> None:
    # B15
    a_node("n1", queues=["mail"], jobs=JOBS)
    assert levels()["queues"] == "warning"
    assert "'default'" in message_of("queues")


@pytest.mark.usefixtures("healthy")
def test_a_scheduled_job_that_no_node_knows_is_an_error() -> None:
    # A6
    a_schedule("odd", job="tests.echo")
    assert levels()["jobs"] == "error"
    assert "'tests.echo'" in message_of("jobs")


@pytest.mark.usefixtures("healthy")
def test_overdue_and_failing_schedules_are_errors() -> None:
    # A14, A8
    Schedule.objects.update(next_run_at=clock.now() - HOUR, error="boom")
    found = [one["message"] for one in findings() if one["check"] == "schedules"]
    assert found == ["Overdue: 'daily'.", "Could not be dispatched: 'daily'."]


@pytest.mark.usefixtures("healthy")
def test_a_paused_schedule_is_not_overdue() -> None:
    # A17
    Schedule.objects.get().pause(note="x")
    Schedule.objects.update(next_run_at=clock.now() - HOUR)
    assert levels()["schedules"] == "ok"


@pytest.mark.usefixtures("healthy")
def test_many_names_are_cut_to_a_few() -> None:
    # D3
    for number in range(8):
        a_schedule(f"s{number}")
    Schedule.objects.update(error="boom")
    assert message_of("schedules").endswith("and 4 more.")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite is set up in this way")
@pytest.mark.usefixtures("healthy")
def test_a_sqlite_that_several_processes_would_fight_over_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # C8
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {})
    assert levels()["sqlite"] == "warning"
    (found,) = [one for one in findings() if one["check"] == "sqlite"]
    assert "IMMEDIATE" in found["hint"]


@pytest.mark.usefixtures("healthy")
def test_a_database_that_fails_is_a_finding_and_not_a_traceback() -> None:
    # C7
    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        if "sync_scheduler_leader" in sql:
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse):
        assert levels()["database"] == "error"
        assert "cannot be used: server closed the connection" in failing("status")[1]
