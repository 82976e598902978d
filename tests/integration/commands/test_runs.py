"""What an operator does with Runs from a shell."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest

from sync_scheduler import lifecycle
from sync_scheduler.models import Run
from tests.integration.api.rows import (
    a_run,
    a_schedule,
    a_step,
    an_attempt,
    an_event,
    many_runs,
)
from tests.integration.commands.shell import failing, scheduler, scheduler_json

pytestmark = pytest.mark.django_db


def test_history_shows_fifty_runs_newest_first_and_how_to_go_on() -> None:
    # D2
    schedule = a_schedule("daily")
    runs = many_runs(120, schedule=schedule, schedule_name="daily")
    many_runs(3)
    expected = [str(run.id) for run in reversed(runs)]
    seen: list[str] = []
    before: list[str] = []
    sizes = []
    while True:
        page = scheduler_json("history", "daily", *before)
        seen += [run["id"] for run in page["runs"]]
        sizes.append(len(page["runs"]))
        if page["next"] is None:
            break
        before = ["--before", page["next"]]
    assert sizes == [50, 50, 20]
    assert seen == expected


def test_history_without_a_name_is_that_of_all_runs() -> None:
    # D2
    many_runs(2, schedule=a_schedule("daily"))
    loose = a_run()
    assert scheduler_json("history", "--limit", "1")["runs"][0]["id"] == str(loose.id)
    assert len(scheduler_json("history")["runs"]) == 3


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0005, "0.5 ms"),
        (0.0099, "9.9 ms"),
        (0.1, "100 ms"),
        (0.5, "500 ms"),
        (0.9991, "999 ms"),
        (1.25, "1.2 s"),
        (125.0, "2 min 5 s"),
    ],
)
def test_history_says_in_plain_numbers_how_long_a_run_took(seconds: float, words: str) -> None:
    # D2
    start = dt.datetime(2026, 3, 1, 6, tzinfo=dt.UTC)
    a_run(started_at=start, finished_at=start + dt.timedelta(seconds=seconds))
    assert f" {words} " in scheduler("history")


def test_history_says_why_a_slot_did_not_run() -> None:
    # A15
    a_run(status="skipped", schedule=a_schedule("daily"), reason=lifecycle.Reason.OVERLAP)
    (run,) = scheduler_json("history", "daily")["runs"]
    assert run["reason"] == "overlap"
    assert run["explanation"] == "The previous run was still active."
    assert "The previous run was still active." in scheduler("history", "daily")


def test_the_table_of_an_empty_history_says_so() -> None:
    # D3
    a_schedule("daily")
    assert scheduler("history", "daily").strip() == "No Run yet."


@pytest.mark.parametrize("limit", ["0", "1001"])
def test_a_senseless_limit_is_refused(limit: str) -> None:
    # D3
    assert "--limit must lie between" in failing("history", "--limit", limit)[1]


def test_show_tells_everything_about_a_run() -> None:
    # B12, D3
    run = a_run(
        "tests.fail",
        "failed",
        max_attempts=3,
        attempt=2,
        error="ValueError: no such order",
        input={"text": "no such order"},
        node="n1",
    )
    an_attempt(run, "retried", number=1)
    an_attempt(run, number=2, error="ValueError: no such order", traceback="Traceback:\n  line 7")
    a_step(run, "fetch", [1])
    an_event(run, "heartbeat", progress=0.5, message="half")
    document = scheduler_json("show", str(run.id))
    assert [one["outcome"] for one in document["attempts"]] == ["retried", "failed"]
    assert [one["name"] for one in document["steps"]] == ["fetch"]
    kinds = [one["kind"] for one in document["events"]]
    assert kinds[0] == "submitted"
    assert {"started", "retry", "failed", "heartbeat"} <= set(kinds)
    text = scheduler("show", str(run.id))
    assert "ValueError: no such order" in text
    assert "  line 7" in text
    assert "fetch" in text


def test_secrets_are_masked_in_input_error_traceback_and_trail() -> None:
    # security 11
    secret = "4111-1111-1111-1111"
    run = a_run(
        "tests.echo", "failed", input={"secret": secret, "value": 3}, error=f"bad card {secret}"
    )
    an_attempt(run, error=f"bad card {secret}", traceback=f"raise ValueError({secret!r})")
    an_event(run, "heartbeat", message=f"charging {secret}")
    assert scheduler_json("show", str(run.id))["input"] == {"secret": "***", "value": 3}
    for words in (["show", str(run.id)], ["history"]):
        for shown in (scheduler(*words), scheduler(*words, "--json")):
            assert secret not in shown
            assert "bad card ***" in shown


def test_the_input_of_a_job_that_is_not_known_here_is_masked_as_a_whole() -> None:
    # security 11
    run = a_run("gone.job", input={"card": "4111-1111"})
    assert scheduler_json("show", str(run.id))["input"] == {"card": "***"}


@pytest.mark.parametrize(
    "beginning",
    ["01a1edcf", "01A1EDCF", "01a1edcf-0000-7", "01a1edcf-0000-7000-9"],
)
def test_a_run_is_found_by_the_beginning_of_its_id(beginning: str) -> None:
    # D3
    for run_id in ("01a1edce-ffff-7fff-bfff-ffffffffffff", "01a1edd0-0000-7000-8000-000000000000"):
        a_run(id=uuid.UUID(run_id))
    meant = a_run(id=uuid.UUID("01a1edcf-0000-7000-9000-000000000001"))
    assert scheduler_json("show", beginning)["id"] == str(meant.id)


def test_a_beginning_that_fits_several_runs_is_refused_with_the_choice() -> None:
    # D3
    first = uuid.UUID("01a1edcf-0000-7000-8000-000000000001")
    second = uuid.UUID("01a1edcf-0000-7000-8000-000000000002")
    a_run(id=first)
    a_run(id=second)
    message = failing("show", "01a1edcf")[1]
    assert str(first) in message
    assert str(second) in message
    assert scheduler_json("show", str(second))["id"] == str(second)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("123", "too short"),
        ("zzzzzzzzzzzz", "There is no Run"),
        ("01a1edcf-0000-7000-8000-000000000009", "There is no Run"),
        ("0" * 40, "There is no Run"),
        ("' OR 1=1 --", "There is no Run"),
    ],
)
def test_what_is_no_run_is_refused(text: str, why: str) -> None:
    # D3, security 27
    a_run()
    assert why in failing("show", text)[1]


def test_cancel_ends_a_run_and_keeps_who_and_why() -> None:
    # B8
    run = a_run()
    assert scheduler_json("cancel", str(run.id), "--reason", "wrong month")["cancelled"] is True
    run.refresh_from_db()
    assert (run.status, run.reason) == ("cancelled", "wrong month")
    (event,) = [event for event in run.events() if event.kind == "cancelled"]
    assert "(shell)" in event.data["by"]


def test_cancelling_what_has_ended_is_an_error_and_changes_nothing() -> None:
    # B8, B2
    run = a_run(status="completed")
    assert "had ended already: it is completed" in failing("cancel", str(run.id))[1]
    run.refresh_from_db()
    assert run.status == "completed"


def test_retry_makes_a_new_run_that_is_linked() -> None:
    # B1
    run = a_run("tests.add", "failed", input={"a": 1, "b": 2})
    again = Run.objects.get(id=scheduler_json("retry", str(run.id))["id"])
    assert (again.retry_of, again.input, again.trigger) == (run.id, {"a": 1, "b": 2}, "retry")
    assert again.id != run.id


def test_retrying_what_runs_well_is_refused() -> None:
    # B1
    run = a_run(status="running")
    assert "only failed, timed out or cancelled" in failing("retry", str(run.id))[1]
    assert Run.objects.count() == 1
