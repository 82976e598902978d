"""HTTP is closed by default, and every action needs its own permission."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from sync_scheduler.api import access
from sync_scheduler.models import Run, Schedule
from tests.integration.api.conftest import TOKEN
from tests.integration.api.rows import a_run, a_schedule

pytestmark = pytest.mark.django_db

Staff = Callable[..., Client]

# Method, address, the permissions of which any one opens it.
ENDPOINTS = [
    ("GET", "v1/status", ("view_run", "view_schedule")),
    ("GET", "v1/schedules", ("view_schedule",)),
    ("GET", "v1/schedules/daily/history", ("view_run",)),
    ("POST", "v1/schedules/daily/trigger", ("trigger_schedule",)),
    ("GET", "v1/runs/{run}", ("view_run",)),
    ("POST", "v1/runs/{run}/cancel", ("cancel_run",)),
    ("POST", "v1/runs/{run}/retry", ("retry_run",)),
    ("GET", "v1/events", ("view_run",)),
    ("GET", "v1/openapi.json", ("view_run", "view_schedule")),
    ("GET", "metrics", ("view_run", "view_schedule")),
]
EVERY_PERMISSION = {
    *("view_run", "view_schedule", "trigger_schedule", "pause_schedule", "cancel_run", "retry_run"),
    "view_payload",
}
each_endpoint = pytest.mark.parametrize(("method", "address", "permissions"), ENDPOINTS)


@pytest.fixture(autouse=True)
def run() -> Run:
    a_schedule("daily")
    return a_run(status="failed")


def call(client: Client, method: str, address: str, run: Run, **more: Any) -> Any:
    return client.generic(method, f"/scheduler/{address.format(run=run.id)}", **more)


def rows() -> list[tuple[Any, ...]]:
    return list(Run.objects.order_by("id").values_list("id", "status"))


@each_endpoint
def test_a_stranger_is_refused(
    method: str, address: str, permissions: tuple[str, ...], run: Run
) -> None:
    # S16
    before = rows()
    response = call(Client(), method, address, run)
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert set(response.json()) == {"error"}
    assert rows() == before


@each_endpoint
def test_a_user_who_is_not_staff_is_refused(
    method: str, address: str, permissions: tuple[str, ...], run: Run, staff: Staff
) -> None:
    # S16
    before = rows()
    assert call(staff(*permissions, is_staff=False), method, address, run).status_code == 403
    assert rows() == before


@each_endpoint
def test_staff_without_the_permission_is_refused_and_told_which_one_is_missing(
    method: str, address: str, permissions: tuple[str, ...], run: Run, staff: Staff
) -> None:
    # S1
    before = rows()
    response = call(staff(*(EVERY_PERMISSION - set(permissions))), method, address, run)
    assert response.status_code == 403
    assert f"sync_scheduler.{permissions[0]}" in response.json()["error"]
    assert rows() == before


@each_endpoint
def test_staff_with_one_of_the_permissions_is_let_in(
    method: str, address: str, permissions: tuple[str, ...], run: Run, staff: Staff
) -> None:
    # S1
    for permission in permissions:
        response = call(staff(permission), method, address, run)
        assert response.status_code in {200, 201}, response.content


@each_endpoint
def test_a_bearer_token_opens_everything_without_csrf(
    method: str, address: str, permissions: tuple[str, ...], run: Run, token: Client
) -> None:
    # D2
    assert call(token, method, address, run).status_code in {200, 201}


@each_endpoint
def test_another_method_is_answered_with_405_and_changes_nothing(
    method: str, address: str, permissions: tuple[str, ...], run: Run, token: Client
) -> None:
    # S2
    before = rows()
    other = {"GET": "POST", "POST": "GET"}[method]
    response = call(token, other, address, run)
    assert response.status_code == 405
    assert method in response["Allow"]
    assert "error" in response.json()
    assert rows() == before


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer x{TOKEN}", "bearer é"],
)
def test_a_wrong_token_is_refused_even_beside_a_good_session(given: str, staff: Staff) -> None:
    # S16
    client = staff("view_run")
    headers = {"Authorization": given}
    expected = 200 if given == "" else 401
    assert client.get("/scheduler/v1/status", headers=headers).status_code == expected


@pytest.mark.parametrize("tokens", [[], [""]])
def test_without_a_token_in_the_settings_no_token_opens(tokens: list[str]) -> None:
    # S16
    with override_settings(SYNC_SCHEDULER={"API_TOKENS": tokens}):
        for given in ("Bearer ", "Bearer", "Bearer  ", "Bearer x"):
            response = Client().get("/scheduler/v1/status", headers={"Authorization": given})
            assert response.status_code == 401


def test_every_token_is_compared_in_constant_time_to_the_end(
    token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S16: no early exit that would tell which token came close
    compared: list[tuple[bytes, bytes]] = []

    class Watched:
        @staticmethod
        def compare_digest(one: bytes, other: bytes) -> bool:
            compared.append((one, other))
            return hmac.compare_digest(one, other)

    monkeypatch.setattr(access, "hmac", Watched)
    with override_settings(SYNC_SCHEDULER={"API_TOKENS": [TOKEN, "second", "third"]}):
        assert token.get("/scheduler/v1/status").status_code == 200
    assert len(compared) == 3
    assert {len(part) for pair in compared for part in pair} == {32}


@pytest.mark.parametrize(
    ("address", "permission"),
    [
        ("v1/schedules/daily/trigger", "trigger_schedule"),
        ("v1/runs/{run}/cancel", "cancel_run"),
        ("v1/runs/{run}/retry", "retry_run"),
    ],
)
def test_a_session_acts_only_with_a_csrf_token(
    address: str, permission: str, run: Run, staff: Staff
) -> None:
    # S2
    before = rows()
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = staff(permission).cookies
    response = call(browser, "POST", address, run)
    assert response.status_code == 403
    assert "CSRF" in response.json()["error"]
    assert rows() == before
    browser.get("/admin/")
    secret = browser.cookies["csrftoken"].value
    response = call(browser, "POST", address, run, headers={"X-CSRFToken": secret})
    assert response.status_code in {200, 201}, response.content


def test_a_user_who_was_switched_off_is_refused(staff: Staff) -> None:
    # S16
    client = staff("view_run")
    User.objects.update(is_active=False)
    assert client.get("/scheduler/v1/status").status_code == 401


def test_answers_are_not_kept_by_caches(token: Client) -> None:
    # S16
    response = token.get("/scheduler/v1/status")
    assert "no-store" in response["Cache-Control"]
    assert "Cookie" in response["Vary"]


def test_a_permission_does_not_open_more_than_its_own_endpoint(run: Run, staff: Staff) -> None:
    # S1
    client = staff("trigger_schedule")
    allowed = {
        address
        for method, address, _ in ENDPOINTS
        if call(client, method, address, run).status_code < 300
    }
    assert allowed == {"v1/schedules/daily/trigger"}
    assert Schedule.objects.count() == 1
