"""The scheduler as a whole over HTTP: status and health."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client, override_settings

from tests.integration.api.rows import a_leader, a_node, a_run, a_schedule
from tests.integration.api.test_access import Staff
from tests.integration.commands.shell import scheduler_json

pytestmark = pytest.mark.django_db


def refuse(execute: Any, sql: str, *rest: Any) -> Any:
    """Stands in for a database that went away while the web process goes on."""
    if "sync_scheduler_" in sql:
        raise OperationalError("could not connect to db.internal as billing")
    return execute(sql, *rest)


def test_status_is_the_same_over_http_and_from_the_shell(token: Client) -> None:
    # D2
    a_leader("n1")
    a_node("n1", queues=["mail"], running=2)
    for status in ("completed", "timed_out", "running", "submitted"):
        a_run(status=status)
    a_schedule("daily")
    found = token.get("/scheduler/v1/status").json()
    assert found == scheduler_json("status")
    assert found["leader"]["node"] == "n1"
    assert found["last_24h"]["failed"] == 1
    assert found["next"][0]["schedule"] == "daily"


def test_schedules_are_named_only_to_those_who_may_see_them(staff: Staff) -> None:
    # S24
    a_schedule("secret-project")
    assert "secret-project" not in staff("view_run").get("/scheduler/v1/status").content.decode()
    assert "secret-project" in staff("view_schedule").get("/scheduler/v1/status").content.decode()


def test_health_is_open_and_names_nothing() -> None:
    # S16
    a_leader("node-canary")
    a_node("node-canary")
    a_schedule("schedule-canary")
    response = Client().get("/scheduler/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}
    assert "canary" not in str(response.headers)


def test_health_says_503_and_still_names_nothing_when_the_database_is_gone() -> None:
    # S16, B11
    with connection.execute_wrapper(refuse):
        response = Client().get("/scheduler/healthz")
    assert response.status_code == 503
    assert response.json() == {"status": "unavailable"}


def test_health_says_503_when_the_settings_cannot_be_used() -> None:
    # C7
    with override_settings(SYNC_SCHEDULER={"LEADER_LEASE": "long"}):
        assert Client().get("/scheduler/healthz").status_code == 503


def test_health_is_read_only() -> None:
    # S2
    assert Client().post("/scheduler/healthz").status_code == 405


def test_a_database_that_is_gone_is_503_in_json_without_its_details(token: Client) -> None:
    # B11, S16
    with connection.execute_wrapper(refuse):
        response = token.get("/scheduler/v1/status")
    assert response.status_code == 503
    assert "OperationalError" in response.json()["error"]
    assert "db.internal" not in response.content.decode()
