"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client, RequestFactory
from django.urls import reverse

from sync_scheduler import signals
from sync_scheduler.api.endpoint import LARGEST_BODY, Problem, body_of
from sync_scheduler.models import Run, Schedule
from tests.integration.api.rows import a_run, a_schedule, many_runs
from tests.integration.api.test_access import Staff

pytestmark = pytest.mark.django_db

ODD_NAMES = [
    "daily",
    "reports/eu/daily",
    "with space",
    "a%2Fb",
    "ünïcode ✓",
    "history",
    "x/history",
    "x/trigger",
    "quote'\"<script>",
    "{{7*7}}",
    "question?mark#hash",
    "semi;colon&amp",
    "..",
    "/leading",
]


def test_the_list_is_paged_by_name(token: Client) -> None:
    # D2
    for number in range(7):
        a_schedule(f"s{number}")
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        query: dict[str, str | int] = {"limit": 3, "after": after}
        page = token.get("/scheduler/v1/schedules", query).json()
        assert len(page["schedules"]) <= 3
        seen += [one["name"] for one in page["schedules"]]
        after = page["next"]
    assert seen == [f"s{number}" for number in range(7)]


@pytest.mark.parametrize("limit", ["0", "501", "-1", "many", "1e3", "", "9" * 30, "٣"])
def test_a_senseless_limit_is_refused(limit: str, token: Client) -> None:
    # S27
    response = token.get("/scheduler/v1/schedules", {"limit": limit})
    assert response.status_code == 400
    assert "limit" in response.json()["error"]


def test_history_is_paged_by_fifty(token: Client) -> None:
    # D2
    schedule = a_schedule("daily")
    runs = many_runs(70, schedule=schedule, schedule_name="daily")
    many_runs(5)
    first = token.get("/scheduler/v1/schedules/daily/history").json()
    assert first["schedule"] == "daily"
    assert len(first["runs"]) == 50
    second = token.get("/scheduler/v1/schedules/daily/history", {"before": first["next"]}).json()
    assert second["next"] is None
    seen = [one["id"] for one in first["runs"] + second["runs"]]
    assert seen == [str(run.id) for run in reversed(runs)]


@pytest.mark.parametrize("before", ["x", "' OR 1=1 --", "123"])
def test_a_senseless_cursor_is_refused(before: str, token: Client) -> None:
    # S27
    a_schedule("daily")
    response = token.get("/scheduler/v1/schedules/daily/history", {"before": before})
    assert response.status_code == 400


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_with_odd_characters_is_reached(name: str, token: Client) -> None:
    # D2
    a_schedule(name)
    a_schedule("decoy")
    for address in (
        f"/scheduler/v1/schedules/{quote(name, safe='')}/history",
        reverse("sync_scheduler:history", args=[name]),
    ):
        response = token.get(address)
        assert response.status_code == 200, response.content
        assert response.json()["schedule"] == name
    response = token.post(reverse("sync_scheduler:trigger", args=[name]))
    assert response.json()["schedule"] == name


@pytest.mark.parametrize("name", ["nothing", "a\0b", "Daily", "daily "])
def test_an_unknown_name_is_404_in_json(name: str, token: Client) -> None:
    # D2
    a_schedule("daily")
    response = token.get(f"/scheduler/v1/schedules/{quote(name)}/history")
    assert response.status_code == 404
    assert repr(name) in response.json()["error"]


def test_trigger_submits_now_and_leaves_the_schedule_alone(token: Client) -> None:
    # A5
    before = a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    response = token.post(
        "/scheduler/v1/schedules/sums/trigger",
        {"reason": "the customer waits"},
        content_type="application/json",
    )
    assert response.status_code == 201
    run = Run.objects.get()
    assert response.json()["id"] == str(run.id)
    assert (run.trigger, run.input) == ("manual", {"a": 1, "b": 2})
    assert run.meta == {"reason": "the customer waits", "by": "API token 2"}
    after = Schedule.objects.get()
    assert (after.next_run_at, after.last_slot) == (before.next_run_at, before.last_slot)


def test_the_same_key_twice_is_one_run(token: Client) -> None:
    # A5, S3
    a_schedule("sums")
    answers = [
        token.post(
            "/scheduler/v1/schedules/sums/trigger", {"key": "k"}, content_type="application/json"
        ).json()["id"]
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert Run.objects.count() == 1


def test_a_trigger_by_a_user_is_in_the_history_of_the_schedule(staff: Staff) -> None:
    # S29
    schedule = a_schedule("sums")
    staff("trigger_schedule").post("/scheduler/v1/schedules/sums/trigger")
    run = Run.objects.get()
    assert run.meta["by"] == "user0"
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user.get_username()) == (str(schedule.pk), "user0")
    assert str(run.id) in entry.change_message


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ("{", 400, "not JSON"),
        ("[]", 400, "must be a JSON object"),
        ("[" * 400_000, 413, "larger than"),
        ("[" * 50_000, 400, "not JSON"),
        ('{"key": 7}', 400, "'key' must be of type str"),
        ('{"job": "os.system"}', 400, "unknown name 'job'"),
        ('{"input": {"a": 9}}', 400, "'a'"),
        ('{"input": [9]}', 400, "'input' must be of type dict"),
        ('{"key": ""}', 400, "must not be empty"),
        ('{"key": "a\\u0000b"}', 400, "NUL"),
        (f'{{"key": "{"k" * 300}"}}', 400, "key must be"),
        ('{"reason": "a\\u0000b"}', 400, "NUL"),
    ],
)
def test_a_bad_body_is_refused_and_stores_nothing(
    body: str, status: int, why: str, token: Client
) -> None:
    # S4, S18, S19
    a_schedule("sums")
    response = token.generic(
        "POST", "/scheduler/v1/schedules/sums/trigger", body, content_type="application/json"
    )
    assert response.status_code == status
    assert why in response.json()["error"]
    assert not Run.objects.exists()


@pytest.mark.parametrize("length", ["abc", "1e3", "9" * 5_000])
def test_a_length_that_is_no_number_is_refused(length: str, token: Client) -> None:
    # S18
    a_schedule("sums")
    address = "/scheduler/v1/schedules/sums/trigger"
    response = token.post(address, "{}", content_type="application/json", CONTENT_LENGTH=length)
    assert (response.status_code, response.json()) == (
        400,
        {"error": "Content-Length must be a number."},
    )


def test_a_large_body_that_did_not_say_so_is_refused() -> None:
    # S18: it was sent in chunks, for one
    body = '{"key": "' + "k" * LARGEST_BODY + '"}'
    request = RequestFactory().post("/", body, content_type="application/json")
    del request.META["CONTENT_LENGTH"]
    with pytest.raises(Problem, match="larger than"):
        body_of(request, {"key": str})


def test_a_plain_form_is_understood_too(token: Client) -> None:
    # A5
    a_schedule("sums")
    sent = {"key": "k", "csrfmiddlewaretoken": "x"}
    assert token.post("/scheduler/v1/schedules/sums/trigger", sent).status_code == 201
    assert token.post("/scheduler/v1/schedules/sums/trigger", {"job": "x"}).status_code == 400
    run = Run.objects.get()
    assert run.key is not None
    assert run.key.endswith(":k")


def test_a_trigger_of_an_unknown_job_is_refused_and_stores_nothing(token: Client) -> None:
    # A6, S4
    schedule = a_schedule("sums")
    Schedule.objects.filter(pk=schedule.pk).update(job="os.system")
    response = token.post("/scheduler/v1/schedules/sums/trigger")
    assert response.status_code == 409
    assert "os.system" in response.json()["error"]
    assert not Run.objects.exists()


def test_secrets_in_errors_are_masked_in_the_history(token: Client) -> None:
    # S11
    schedule = a_schedule("cards", job="tests.echo", input={"secret": "4111-1111"})
    a_run(
        "tests.echo",
        "failed",
        schedule=schedule,
        input={"secret": "4111-1111"},
        error="refused: 4111-1111",
    )
    text = token.get("/scheduler/v1/schedules/cards/history").content.decode()
    assert "4111-1111" not in text
    assert "refused: ***" in text
    assert "4111-1111" not in token.get("/scheduler/v1/schedules").content.decode()


def test_json_that_is_sent_as_a_form_is_told_how_to_be_sent(token: Client) -> None:
    # D2: as `curl -d` sends it
    a_schedule("sums")
    for body in ('{"key": "k"}', ' {"reason": "a=b&c"}'):
        response = token.generic(
            "POST",
            "/scheduler/v1/schedules/sums/trigger",
            body,
            content_type="application/x-www-form-urlencoded",
        )
        assert response.status_code == 400
        assert "Content-Type: application/json" in response.json()["error"]
    assert not Run.objects.exists()


def send(client: Client, **body: object) -> Any:
    address = "/scheduler/v1/schedules/sums/trigger"
    return client.post(address, body, content_type="application/json")


def test_a_trigger_that_is_refused_for_its_input_is_told_as_any_other(token: Client) -> None:
    # A9, B3
    a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    told: list[str] = []

    def hear(schedule: str, **_: object) -> None:
        told.append(schedule)

    signals.trigger_rejected.connect(hear)
    try:
        assert send(token, input={"b": "many"}).status_code == 400
    finally:
        signals.trigger_rejected.disconnect(hear)
    assert told == ["sums"]
    assert not Run.objects.exists()


def test_a_trigger_may_replace_parts_of_the_input_for_this_once(token: Client) -> None:
    # A5, B3
    a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    answer = send(token, input={"b": 40}, reason="month end", key="k")
    assert answer.status_code == 201, answer.content
    run = Run.objects.get()
    assert (run.input, run.trigger, run.schedule_name) == ({"a": 1, "b": 40}, "manual", "sums")
    assert run.meta == {"reason": "month end", "by": "API token 2"}
    assert Schedule.objects.get().input == {"a": 1, "b": 2}
    assert send(token, input={"b": 40}, key="k").json()["id"] == str(run.id)
    assert send(token, input={"b": 41}, key="k").status_code == 409
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"a": "many"}, "whole number"),
        ({"c": 1}, "'c'"),
        ({"a": 1.5}, "whole number"),
        ({"a": "x" * 262_144}, ""),
    ],
)
def test_an_input_that_does_not_fit_the_job_is_refused_and_stores_nothing(
    given: dict[str, object], why: str, token: Client
) -> None:
    # B3, S18: limits hold before anything is stored
    a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    answer = send(token, input=given)
    assert answer.status_code == 400
    assert why in answer.json()["error"]
    assert not Run.objects.exists()


def test_whoever_may_not_see_the_input_may_not_replace_it(staff: Staff) -> None:
    # S1, S11
    a_schedule("sums", job="tests.add", input={"a": 1, "b": 2})
    refused = send(staff("trigger_schedule"), input={"b": 40})
    assert refused.status_code == 403
    assert "view_payload" in refused.json()["error"]
    assert not Run.objects.exists()
    assert send(staff("trigger_schedule", "view_payload"), input={"b": 40}).status_code == 201


def test_pages_stay_as_they_are_while_rows_arrive(token: Client) -> None:
    # D2: neither twice nor left out
    schedule = a_schedule("daily")
    known = many_runs(9, schedule=schedule, schedule_name="daily")
    seen: list[str] = []
    query: dict[str, str | int] = {"limit": 4}
    while True:
        page = token.get("/scheduler/v1/schedules/daily/history", query).json()
        seen += [one["id"] for one in page["runs"]]
        many_runs(5, schedule=schedule, schedule_name="daily")
        if page["next"] is None:
            break
        query = {"limit": 4, "before": page["next"]}
    assert seen == [str(run.id) for run in reversed(known)]
