"""The description of the interface is true."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from sync_scheduler import urls
from sync_scheduler.live import seats
from sync_scheduler.models import Run
from tests.integration.api.rows import (
    a_leader,
    a_node,
    a_run,
    a_schedule,
    a_step,
    an_attempt,
    an_event,
)
from tests.integration.api.schema_check import faults
from tests.integration.api.test_access import Staff
from tests.integration.api.test_cluster import refuse

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(token: Client) -> Any:
    return token.get("/scheduler/v1/openapi.json").json()


@pytest.fixture(autouse=True)
def rows() -> Run:
    """One of everything, so that no part of an answer is empty."""
    a_leader()
    a_node("n1", queues=["mail"])
    schedule = a_schedule("daily", job="tests.add", input={"a": 1, "b": 2})
    a_schedule("resting").pause(note="x")
    a_run(status="running", queue="mail")
    run = a_run("tests.add", "failed", input={"a": 1, "b": 2}, schedule=schedule, key="k")
    run.refresh_from_db()
    an_attempt(run, traceback="t")
    a_step(run, "fetch", [1])
    an_event(run, "heartbeat", progress=0.5, message="half")
    return run


def check(document: Any, path: str, method: str, response: Any) -> None:
    described = document["paths"][path][method]["responses"][str(response.status_code)]
    ((media, content),) = described["content"].items()
    assert response["Content-Type"].startswith(media)
    if media == "application/json":
        assert not faults(response.json(), content["schema"], document)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/status",
        "/v1/schedules",
        "/v1/schedules/{name}/history",
        "/v1/runs/{id}",
        "/v1/events",
        "/v1/openapi.json",
        "/metrics",
        "/healthz",
    ],
)
def test_what_is_read_is_as_described(path: str, document: Any, rows: Run, token: Client) -> None:
    # D2
    address = path.format(name="daily", id=rows.id)
    check(document, path, "get", token.get(f"/scheduler{address}"))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/schedules/{name}/trigger", 201),
        ("/v1/runs/{id}/cancel", 200),
        ("/v1/runs/{id}/retry", 201),
    ],
)
def test_what_is_done_is_answered_as_described(
    path: str, status: int, document: Any, rows: Run, token: Client
) -> None:
    # D2
    response = token.post(f"/scheduler{path.format(name='daily', id=rows.id)}")
    assert response.status_code == status
    check(document, path, "post", response)


def test_refusals_are_as_described(document: Any, rows: Run, token: Client) -> None:
    # D2
    trigger = "/scheduler/v1/schedules/daily/trigger"
    bad = token.post(trigger, "{", content_type="application/json")
    cases = [
        ("/v1/status", "get", Client().get("/scheduler/v1/status"), 401),
        ("/v1/schedules", "get", token.get("/scheduler/v1/schedules?limit=x"), 400),
        ("/v1/schedules", "get", token.post("/scheduler/v1/schedules"), 405),
        ("/v1/schedules/{name}/trigger", "post", bad, 400),
        ("/v1/runs/{id}", "get", token.get("/scheduler/v1/runs/x"), 404),
        ("/v1/runs/{id}/retry", "post", token.post(f"/scheduler/v1/runs/{a_run().id}/retry"), 409),
    ]
    for path, method, response, status in cases:
        assert response.status_code == status
        check(document, path, method, response)


def test_the_rarer_refusals_are_as_described_too(
    document: Any, token: Client, staff: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    # D2
    monkeypatch.setattr(seats, "PER_CALLER", 0)
    trigger = "/scheduler/v1/schedules/daily/trigger"
    large = token.post(trigger, "x" * 400_000, content_type="application/json")
    with connection.execute_wrapper(refuse):
        unreadable = token.get("/scheduler/v1/status")
        unhealthy = Client().get("/scheduler/healthz")
    cases = [
        ("/v1/status", "get", staff().get("/scheduler/v1/status"), 403),
        ("/v1/schedules/{name}/trigger", "post", staff().post(trigger), 403),
        ("/v1/schedules/{name}/trigger", "post", large, 413),
        ("/v1/events", "get", token.get("/scheduler/v1/events"), 429),
        ("/v1/status", "get", unreadable, 503),
        ("/healthz", "get", unhealthy, 503),
    ]
    for path, method, response, status in cases:
        assert response.status_code == status
        check(document, path, method, response)


def test_every_address_is_described_and_no_other(document: Any) -> None:
    # D2
    served = {
        "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)).replace("{run_id}", "{id}")
        for pattern in urls.urlpatterns
    }
    assert set(document["paths"]) == served


def test_the_check_itself_notices_what_does_not_fit(document: Any, token: Client) -> None:
    # D2
    schema = {"$ref": "#/components/schemas/Status"}
    good = token.get("/scheduler/v1/status").json()
    assert not faults(good, schema, document)
    for spoiled in (
        {**good, "extra": 1},
        {name: value for name, value in good.items() if name != "next"},
        {**good, "running": "1"},
        {**good, "leader": {**good["leader"], "since": "yesterday"}},
        {**good, "next": [{"schedule": "x", "at": "2026-03-01T06:00:00+01:00"}]},
    ):
        assert faults(spoiled, schema, document)
