"""What the HTTP interface must never give away, run, fetch or believe. `S8` is item 8 of the list.

Who may do what is in `test_access`, streams are in `test_events`, labels in `test_metrics`.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, override_settings

from sync_scheduler import Cancel, InvalidInput, Retry, clock, cron, job, urls
from sync_scheduler.api import journal
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import InvalidRule, UnknownJob
from sync_scheduler.jobs import payload, registry
from sync_scheduler.models import DeadLetter, Run, Schedule
from sync_scheduler.store import claims
from sync_scheduler.timing import slots
from sync_scheduler.timing.rules import Recurrence
from sync_scheduler.work.backing import WorkerBacking
from sync_scheduler.work.execute import execute, outcome_of
from sync_scheduler.work.wire import Order
from tests.integration.api.rows import (
    a_leader,
    a_node,
    a_run,
    a_schedule,
    a_step,
    an_attempt,
    an_event,
)
from tests.integration.api.test_access import ENDPOINTS, Staff
from tests.integration.api.test_events import LONG_AGO, frames
from tests.integration.dispatch.leading import lead

pytestmark = pytest.mark.django_db

PACKAGE = Path(urls.__file__).parent
HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}javascript:1"
BREAKING = "one\r\n\r\nevent: evil\ndata: {}\n\n\x1b[31mred\x00".replace("\x00", "")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def addresses(run: Run) -> list[str]:
    """Everything that is read."""
    return [
        f"/scheduler/{address.format(run=run.id)}"
        for method, address, _ in ENDPOINTS
        if method == "GET"
    ]


@contextmanager
def declared(
    name: str, func: Callable[..., Any] = lambda secret="", value="": None, **options: Any
) -> Iterator[None]:
    """A job for the length of one test."""
    job(name=name, **options)(func)
    try:
        yield
    finally:
        registry.remove(name)


def body(response: Any) -> str:
    text = b"".join(response.streaming_content) if response.streaming else response.content
    return str(text.decode())


def everything(text: str, **values: Any) -> Run:
    """One row of each kind with this text wherever text can be."""
    a_leader(text)
    a_node(text, host=text, queues=[text])
    schedule = a_schedule("daily", job="tests.echo", input={"secret": text, "value": 1})
    Schedule.objects.update(rule=text[:200], note=text, error=text, pause_note=text, paused_by=text)
    run = a_run(
        **{"job": "tests.echo", "status": "failed", "schedule": schedule,
           "schedule_name": text, "input": {"secret": text, "value": text},
           "result": {"said": text}, "meta": {"why": text}, "error": f"Error: {text}",
           "reason": text, "key": text, "node": text, "queue": text[:90], "attempt": 1,
           "progress_message": text, **values},
    )  # fmt: skip
    an_attempt(run, "retried", error=text, traceback=f"Traceback\n{text}", node=text)
    a_step(run, text, {text: text})
    an_event(run, "heartbeat", progress=0.5, message=text)
    return run


def test_no_address_has_been_forgotten_here() -> None:
    # S1, S2, S16: an address that is new needs a line in ENDPOINTS, and is covered by all of it
    sample = {"name": "daily", "run_id": "{run}"}
    served = {
        re.sub(r"<\w+:(\w+)>", lambda found: sample[found[1]], str(pattern.pattern))
        for pattern in urls.urlpatterns
    }
    assert served == {address for _, address, _ in ENDPOINTS} | {"healthz"}


def test_hostile_text_is_never_sent_as_anything_but_data(token: Client) -> None:
    # S8: what users wrote stays data
    run = everything(HOSTILE)
    for address in addresses(run):
        response = token.get(address, headers={"Last-Event-ID": LONG_AGO})
        kind = response["Content-Type"].partition(";")[0]
        assert kind in {"application/json", "text/event-stream", "text/plain"}, address
        assert response.get("X-Content-Type-Options") == "nosniff", address
        if kind == "application/json":
            assert isinstance(json.loads(response.content), dict), address
    refused = token.get(f"/scheduler/v1/schedules/{HOSTILE.replace('/', '')}/history")
    assert (refused.status_code, refused["Content-Type"]) == (404, "application/json")


def test_a_text_cannot_break_out_of_its_frame_in_a_stream(token: Client) -> None:
    # S8, S21: line breaks separate frames
    everything(BREAKING, job="tests.noop\n\nevent: evil\ndata: 1\n\n")
    text = body(token.get("/scheduler/v1/events", headers={"Last-Event-ID": LONG_AGO}))
    kinds = {frame["event"] for frame in frames(text) if "event" in frame}
    assert "evil" not in kinds
    assert {"finished", "submitted"} <= kinds


def test_nothing_is_fetched_whatever_the_rows_say(
    token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S10: no address in a row is ever asked
    run = everything("http://127.0.0.1:1/canary")
    reached: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, where: reached.append(where))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: reached.append(given))
    for address in addresses(run):
        body(token.get(address))
    assert reached == []


def test_the_package_has_nothing_to_fetch_with() -> None:
    # S10
    fetching = re.compile(
        r"^\s*(?:import|from)\s+(?:urllib\.request|http\.client|requests|httpx|aiohttp|urllib3|"
        r"ftplib|smtplib|telnetlib|pickle|marshal|shelve|dill|cloudpickle)\b",
        re.MULTILINE,
    )
    found = [path.name for path in PACKAGE.rglob("*.py") if fetching.search(path.read_text())]
    assert found == []


def test_a_secret_is_in_no_answer_stream_number_log_or_mail(
    token: Client, caplog: pytest.LogCaptureFixture
) -> None:
    # S11: sensitive input is never shown
    canary = "canary-4711-secret"
    schedule = a_schedule("daily", job="tests.echo", input={"secret": canary, "value": 1})
    run = a_run(
        "tests.echo", "failed", schedule=schedule, schedule_name="daily",
        input={"secret": canary, "value": 1}, error=f"refused {canary}", result={"x": canary},
        progress_message=canary, meta={"note": canary}, reason=f"because of {canary}",
    )  # fmt: skip
    an_attempt(run, "retried", error=canary, traceback=f"ValueError: {canary}")
    an_event(run, "heartbeat", progress=0.1, message=canary)
    waiting = a_run("tests.echo", input={"secret": canary, "value": 1})
    with caplog.at_level(logging.DEBUG, logger="sync_scheduler"):
        told = [body(token.get(address)) for address in addresses(run)]
        for address in (
            "v1/schedules/daily/trigger",
            f"v1/runs/{run.id}/retry",
            f"v1/runs/{waiting.id}/cancel",
        ):
            answer = token.post(f"/scheduler/{address}")
            assert answer.status_code < 300, answer.content
            told.append(body(answer))
    assert canary not in "".join(told)
    assert "API token" in caplog.text
    assert canary not in caplog.text
    assert canary not in " ".join(str(record.__dict__) for record in caplog.records)


# Django 6.0 wants plain addresses there, and 6.1 another setting for mail; 5.2 knows neither.
@pytest.mark.filterwarnings("ignore:Using .name, address. pairs", "ignore:Django 2028 will not")
@override_settings(ADMINS=[("ops", "ops@example.com")], DEBUG=False)
def test_a_secret_is_not_in_the_mail_about_an_error(
    token: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S11: exception mails
    canary = "canary-4711-secret"
    a_schedule("daily", job="tests.echo", input={"secret": "x", "value": 1})

    def broken(*given: object) -> None:
        raise RuntimeError("broken inside")

    monkeypatch.setattr(journal, "note", broken)
    token.raise_request_exception = False
    sent = {"input": {"secret": canary}}
    address = "/scheduler/v1/schedules/daily/trigger"
    assert token.post(address, sent, content_type="application/json").status_code == 500
    (found,) = mail.outbox
    assert "broken inside" in found.body
    assert canary not in str(found.message())


def test_a_traceback_has_no_local_variables_and_an_end() -> None:
    # S12: what a handler held in its hands is not kept
    def charge(card: str, depth: int) -> None:
        number = card + "-local"
        if depth == 0:
            raise ValueError(f"refused after {len(number)} digits")
        charge(card, depth - 1)

    order = Order(uuid.uuid4().hex, "tests.echo", {}, 1, 1, "submit", None, 0, "n1")
    try:
        charge("".join(["canary", "-4711"]), 3)
    except ValueError as error:
        report = outcome_of(order, 0.0, error)
    assert "charge" in report.traceback
    assert "refused after" in report.traceback
    assert "canary-4711" not in report.traceback + report.error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("refused canary-4711"),
        KeyError("canary-4711\nand more"),
        Retry(reason="again with canary-4711"),
        Cancel("not canary-4711"),
        ValueError("y" * 1_993 + "canary-4711"),
    ],
)
def test_a_secret_is_masked_before_it_is_stored(error: Exception) -> None:
    # S11: whoever reads a Run, its trail or a signal; and it is not cut in two before
    given = {"secret": "canary-4711\nand more", "value": "canary-4711"}
    order = Order(uuid.uuid4().hex, "tests.two_secrets", given, 1, 1, "submit", None, 0, "n1")
    told: list[Any] = []
    with declared("tests.two_secrets", sensitive=("secret", "value")):
        report = outcome_of(order, 0.0, error)
        WorkerBacking(order, lambda message, **_: told.append(message)).beat(0.5, str(error))
    assert "canary" not in f"{report} {told}"
    assert "***" in report.error or "y" * 1_993 in report.error
    assert len(told) == 1


def test_what_cannot_be_kept_of_a_result_is_said_without_its_secrets() -> None:
    # S11
    order = Order("a" * 32, "tests.echo", {"secret": "canary-4711"}, 1, 1, "submit", None, 0, "n1")
    report = execute(order, WorkerBacking(order, lambda message, **_: None))
    assert report.kind == "done"
    with declared("tests.tells", lambda secret: {secret: {1: 2}}, sensitive=("secret",)):
        report = execute(
            order._replace(job="tests.tells"), WorkerBacking(order, lambda *_, **__: None)
        )
    assert "Result not kept" in report.error
    assert "canary" not in report.error


def test_what_is_too_large_is_refused_or_cut_before_it_is_stored() -> None:
    # S18: 256 KiB of input, 64 KiB of result, 32 KiB of traceback, 64 levels
    room = 262_144 - len('""')
    assert payload.normalise("x" * room, "The input", 262_144)
    with pytest.raises(InvalidInput):
        payload.normalise("x" * (room + 1), "The input", 262_144)
    fits, problem = payload.storable_result("x" * (65_536 - 2), 65_536)
    assert (len(fits), problem) == (65_534, "")
    cut, problem = payload.storable_result("x" * (65_536 - 1), 65_536)
    assert problem
    assert len(json.dumps(cut)) < 65_536
    order = Order(uuid.uuid4().hex, "tests.echo", {}, 1, 1, "submit", None, 0, "n1")
    report = outcome_of(order, 0.0, ValueError("y" * 100_000))
    assert len(report.traceback.encode()) <= 32_768
    assert len(report.error.encode()) <= 2_000


PATHOLOGICAL = (
    *("0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "59 59 23 29 2 mon", "0 0 29 2 *", "0 0 0 31 12 sun"),
    *("* * * * * *", "*/1 */1 */1 */1 */1", "0-59/59 0-23/23 1-31/30 1-12/11 0-6/6"),
    ",".join(str(number) for number in range(60)) + " * * * *",
    "0 0 1-31 * 0-6",
)


@pytest.mark.parametrize("expression", PATHOLOGICAL)
def test_a_pathological_rule_costs_a_bounded_number_of_steps(expression: str) -> None:
    # S20: counted, not timed
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        rule = Recurrence(kind="cron", expression=expression, timezone="Australia/Lord_Howe")
        now = clock.now()
        slots.preview(rule, now, 10)
        slots.latest(rule, now.replace(year=2000), now, 30)
        slots.count(rule, now.replace(year=2000), now)
    except InvalidRule:
        pass
    finally:
        sys.setprofile(None)
    assert 0 < steps < 100_000


@pytest.mark.parametrize(
    "zone", ["../../etc/passwd", "/etc/passwd", "Europe/../../etc/passwd", "..", "x" * 5000, "\0"]
)
def test_a_zone_is_a_known_name_and_never_a_path(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S20
    cron("0 1 * * *", tz="Europe/Berlin")  # the list of known zones is read once, from files
    opened: list[str] = []
    monkeypatch.setattr(Path, "open", lambda self, *given, **more: opened.append(str(self)))
    with pytest.raises(InvalidRule):
        a_schedule("daily", rule=cron("0 1 * * *", tz=zone))
    assert opened == []


def test_a_rule_of_enormous_length_is_refused() -> None:
    # S20
    with pytest.raises(InvalidRule):
        a_schedule("daily", rule=cron(",".join(["1"] * 100_000) + " * * * *"))


def test_what_users_wrote_cannot_forge_a_line_of_the_log(
    staff: Staff, token: Client, caplog: pytest.LogCaptureFixture
) -> None:
    # S21: one action, one line
    schedule = a_schedule("daily")
    Schedule.objects.filter(pk=schedule.pk).update(name=BREAKING)
    browser = staff("trigger_schedule", "cancel_run", "retry_run")
    User.objects.update(username=f"{BREAKING}-user")
    run = a_run(schedule_name=BREAKING, job=BREAKING)
    with caplog.at_level(logging.DEBUG, logger="sync_scheduler"):
        for client in (browser, token):
            found = Schedule.objects.get()
            client.post(f"/scheduler/v1/schedules/{found.name}/trigger", {"reason": BREAKING})
        token.post(f"/scheduler/v1/runs/{run.id}/cancel", {"reason": BREAKING})
    assert len(caplog.records) >= 1
    assert [r.getMessage() for r in caplog.records if CONTROL.search(r.getMessage())] == []


SQL = ("' OR '1'='1", "1; DROP TABLE sync_scheduler_run; --", '") UNION SELECT 1,2 --', "%' --",
       "\\'; --", "1/**/OR/**/1=1", "%(x)s %s %%", "\ud7ff", "0x31")  # fmt: skip


@pytest.mark.parametrize("text", SQL)
def test_what_an_address_says_is_never_sql(text: str, token: Client) -> None:
    # S27
    a_schedule("daily")
    run = a_run()
    for address in addresses(run):
        for name in ("limit", "after", "before", "run", "schedule", "order", "q"):
            response = token.get(address, {name: text}, headers={"Last-Event-ID": text})
            assert response.status_code in {200, 400, 404}, (address, name)
            body(response)
    assert Run.objects.count() == 1


# Numbers of our own, and names of tables and columns; never what somebody gave.
PARTS_OF_SQL = {
    *("_table()", "table", "columns", "quote(index)", "', '.join([places] * count)"),
    *("timeout", "_idle_seconds()"),
}


def test_sql_is_never_put_together_from_values() -> None:
    # S27: a statement that is executed is a constant, or made of names of tables and columns
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            assert call.func.attr not in {"extra", "RawSQL"}, path
            if call.func.attr in {"execute", "executemany", "raw"} and call.args:
                for part in ast.walk(call.args[0]):
                    if isinstance(part, ast.FormattedValue):
                        found.add(ast.unparse(part.value))
                    assert not isinstance(part, ast.Mod), path
    assert found <= PARTS_OF_SQL


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.Popen", "builtins.exec", "tests.testapp"]
)
def test_a_name_that_is_no_job_is_refused_where_it_is_saved(name: str) -> None:
    # S4: at the door
    with pytest.raises(UnknownJob):
        Schedule.objects.register("evil", job=name, rule=cron("* * * * *"))
    with pytest.raises(UnknownJob):
        Schedule.objects.add("evil", job=name, rule=cron("* * * * *"))
    with pytest.raises(ValidationError) as refused:
        Schedule(name="evil", job=name, expression="* * * * *").clean()
    assert set(refused.value.message_dict) == {"job"}
    assert not Schedule.objects.exists()


@override_settings(SYNC_SCHEDULER={"MAX_DISPATCH_FAILURES": 1})
def test_a_name_that_got_past_the_door_ends_as_a_dead_letter(tmp_path: Path) -> None:
    # S4: at run time, when somebody wrote the row by hand
    canary = tmp_path / "canary"
    schedule = a_schedule("evil", rule=cron("* * * * *"))
    due = clock.now().replace(second=0, microsecond=0)
    Schedule.objects.update(
        job="os.system", input={"command": f"touch {canary}"}, next_run_at=due, last_slot=None
    )
    tick(lead(), clock.now())
    letter = DeadLetter.objects.get()
    assert (letter.schedule_id, letter.job) == (schedule.pk, "os.system")
    assert "os.system" in letter.error
    run = a_run("os.system", input={"command": f"touch {canary}"})
    assert claims.claim([run.id], "node", ["tests.noop"]) == []
    run.refresh_from_db()
    assert run.status == "submitted"
    assert not canary.exists()


def test_errors_have_one_form(token: Client, staff: Staff) -> None:
    # D2
    run = a_run(status="completed")
    trigger = "/scheduler/v1/schedules/daily/trigger"
    a_schedule("daily")
    answers = [
        Client().get("/scheduler/v1/status"),
        staff().get("/scheduler/v1/status"),
        token.get("/scheduler/v1/schedules?limit=x"),
        token.get("/scheduler/v1/schedules/none/history"),
        token.get("/scheduler/v1/events?run=x"),
        token.get(trigger),
        token.post(trigger, "{", content_type="application/json"),
        token.post(trigger, b"\xff\xfe", content_type="application/json"),
        token.post(trigger, "x" * 400_000, content_type="application/json"),
        token.post(f"/scheduler/v1/runs/{run.id}/retry"),
        token.put(trigger),
        token.delete(f"/scheduler/v1/runs/{run.id}"),
    ]
    assert {answer.status_code for answer in answers} == {400, 401, 403, 404, 405, 409, 413}
    for answer in answers:
        assert answer["Content-Type"] == "application/json"
        (error,) = answer.json().values()
        assert set(answer.json()) == {"error"}
        assert error.strip()
        assert "\n" not in error
        assert "no-store" in answer["Cache-Control"]
    assert connection.is_usable()
