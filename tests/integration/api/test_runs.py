"""One Run over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from sync_scheduler.models import Run
from tests.integration.api.rows import a_run, a_step, an_attempt, an_event
from tests.integration.api.test_access import Staff

pytestmark = pytest.mark.django_db

SECRET = "4111-1111-1111-1111"


@pytest.fixture
def run() -> Run:
    """A failed Run with a secret wherever one could end up."""
    run = a_run(
        "tests.echo",
        "failed",
        input={"secret": SECRET, "value": "plain-value"},
        result={"echo": "result-value"},
        meta={"order": "meta-value"},
        error=f"bad card {SECRET}",
        progress_message=f"charging {SECRET}",
    )
    an_attempt(run, error=f"bad card {SECRET}", traceback=f"ValueError: {SECRET}")
    a_step(run, "fetch", {"rows": "step-value"})
    an_event(run, "heartbeat", progress=0.5, message=f"charging {SECRET}")
    return run


def show(client: Client, run: Run) -> Any:
    response = client.get(f"/scheduler/v1/runs/{run.id}")
    assert response.status_code == 200, response.content
    return response.json()


def test_a_run_is_shown_with_attempts_steps_and_trail(run: Run, token: Client) -> None:
    # B12
    found = show(token, run)
    assert found["id"] == str(run.id)
    assert found["input"] == {"secret": "***", "value": "plain-value"}
    assert found["result"] == {"echo": "result-value"}
    assert [one["result"] for one in found["steps"]] == [{"rows": "step-value"}]
    assert [one["outcome"] for one in found["attempts"]] == ["failed"]
    kinds = [one["kind"] for one in found["events"]]
    assert kinds[0] == "submitted"
    assert sorted(kinds[1:]) == ["failed", "heartbeat", "started"]


def test_secrets_are_masked_for_everybody(run: Run, token: Client) -> None:
    # S11
    text = token.get(f"/scheduler/v1/runs/{run.id}").content.decode()
    assert SECRET not in text
    assert "bad card ***" in text


def test_secrets_that_a_handler_gave_back_are_masked_too(token: Client) -> None:
    # S11
    run = a_run(
        "tests.echo",
        "completed",
        input={"secret": {"number": SECRET, "pin": 471147}, "value": 1},
        result={"kept": 1, "echo": [f"card {SECRET}", 471147, True, None]},
        meta={"note": SECRET},
        key=f"pay:{SECRET}",
    )
    a_step(run, "charge", {SECRET: "done"})
    an_event(run, "heartbeat", progress=1.0, message=SECRET)
    found = show(token, run)
    assert SECRET not in str(found)
    assert "471147" not in str(found)
    assert found["result"] == {"kept": 1, "echo": ["card ***", "***", True, None]}


def test_without_the_permission_the_payload_is_masked_as_a_whole(run: Run, staff: Staff) -> None:
    # S1, S11
    found = show(staff("view_run"), run)
    assert found["input"] == found["result"] == found["meta"] == "***"
    assert [one["result"] for one in found["steps"]] == ["***"]
    text = str(found)
    for payload in ("plain-value", "result-value", "meta-value", "step-value", SECRET):
        assert payload not in text
    assert "bad card ***" in found["error"]


def test_with_the_permission_the_payload_is_shown(run: Run, staff: Staff) -> None:
    # S1
    found = show(staff("view_run", "view_payload"), run)
    assert found["input"] == {"secret": "***", "value": "plain-value"}


@pytest.mark.parametrize("text", ["x", "123", str(uuid.uuid4()), "' OR 1=1 --", "%00"])
@pytest.mark.parametrize("action", ["", "/cancel", "/retry"])
def test_what_is_no_run_is_404_in_json(text: str, action: str, token: Client) -> None:
    # S27
    method = token.post if action else token.get
    response = method(f"/scheduler/v1/runs/{text}{action}")
    assert response.status_code == 404
    assert set(response.json()) == {"error"}


def test_cancel_keeps_who_and_why(staff: Staff) -> None:
    # B8, S29
    run = a_run()
    response = staff("cancel_run").post(
        f"/scheduler/v1/runs/{run.id}/cancel",
        {"reason": "wrong month"},
        content_type="application/json",
    )
    assert response.status_code == 200
    assert response.json()["cancelled"] is True
    assert response.json()["run"]["status"] == "cancelled"
    run.refresh_from_db()
    assert (run.status, run.reason) == ("cancelled", "wrong month")
    (event,) = [event for event in run.events() if event.kind == "cancelled"]
    assert event.data["by"] == "user0"
    assert LogEntry.objects.get().object_id == str(run.pk)


def test_cancelling_what_has_ended_changes_nothing_and_says_so(token: Client) -> None:
    # B2, B8
    run = a_run(status="completed")
    found = token.post(f"/scheduler/v1/runs/{run.id}/cancel").json()
    assert found["cancelled"] is False
    assert found["run"]["status"] == "completed"


def test_retry_makes_a_new_run(staff: Staff) -> None:
    # B1, S29
    run = a_run("tests.add", "failed", input={"a": 1, "b": 2})
    response = staff("retry_run").post(f"/scheduler/v1/runs/{run.id}/retry")
    assert response.status_code == 201
    again = Run.objects.get(id=response.json()["id"])
    assert (again.retry_of, again.input) == (run.id, {"a": 1, "b": 2})
    assert again.meta["retried_by"] == "user0"
    assert str(again.id) in LogEntry.objects.get().change_message


def test_the_same_key_twice_is_one_new_run(token: Client) -> None:
    # B5, S3: a double click, or a client that asks again because the answer got lost
    run = a_run("tests.add", "failed", input={"a": 1, "b": 2})
    address = f"/scheduler/v1/runs/{run.id}/retry"
    first, second, other = (
        token.post(address, {"key": key}, content_type="application/json").json()["id"]
        for key in ("k", "k", "another")
    )
    assert first == second != other
    assert set(Run.objects.values_list("retry_of", flat=True)) == {None, run.id}
    assert Run.objects.count() == 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"key": ""}', "must not be empty"),
        ('{"key": 7}', "must be of type str"),
        ('{"key": "a\\u0000b"}', "NUL"),
        (f'{{"key": "{"k" * 300}"}}', "key must be"),
        ('{"input": {}}', "unknown name 'input'"),
    ],
)
def test_a_retry_with_a_bad_key_is_refused_and_stores_nothing(
    body: str, why: str, token: Client
) -> None:
    # S18
    run = a_run("tests.add", "failed", input={"a": 1, "b": 2})
    address = f"/scheduler/v1/runs/{run.id}/retry"
    response = token.generic("POST", address, body, content_type="application/json")
    assert response.status_code == 400
    assert why in response.json()["error"]
    assert Run.objects.count() == 1


def test_retrying_what_has_completed_is_a_conflict(token: Client) -> None:
    # B1
    run = a_run(status="completed")
    response = token.post(f"/scheduler/v1/runs/{run.id}/retry")
    assert response.status_code == 409
    assert Run.objects.count() == 1
