"""Who may do what, and what a page must never show, run or believe."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from sync_scheduler import conf
from sync_scheduler.admin import pulse
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run, Schedule
from tests.integration.admin import rows
from tests.integration.admin.conftest import Login

pytestmark = pytest.mark.django_db

VIEWS = ("view_schedule", "view_run", "view_node", "view_deadletter")
LISTS = ("dashboard", "schedule", "run", "deadletter", "node", "joblist", "load")
TOKEN = "abcdefghijklmnop1234"
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><svg onload=alert(1)>",
    "{{7*7}}{% now 'Y' %}",
    "javascript:alert(1)",
    "' OR 1=1 --",
]


def url(model: str, name: str = "changelist", *args: object) -> str:
    return reverse(f"admin:sync_scheduler_{model}_{name}", args=args)


class World:
    """One of everything that can be acted upon."""

    def __init__(self) -> None:
        self.schedule = rows.schedule()
        self.paused = rows.schedule("paused-one")
        self.paused.pause(note="x", by="ops")
        self.waiting = rows.run(None, State.SUBMITTED)
        self.failed = rows.failed(self.schedule)

    def actions(self) -> dict[str, tuple[str, str, dict[str, Any]]]:
        """Name: (permission, address, what is sent)."""
        s, p = self.schedule.id, self.paused.id
        reason = {"reason": "because", "token": TOKEN}
        return {
            "trigger": (
                "trigger_schedule",
                url("schedule", "trigger", s),
                {**reason, "overlap": "wait", "input_a": "1", "input_b": "2"},
            ),
            "pause": (
                "pause_schedule",
                url("schedule", "pause", s),
                {"note": "n", "choice": "open"},
            ),
            "resume": ("pause_schedule", url("schedule", "resume", p), {}),
            "edit": ("change_schedule", url("schedule", "edit", s), {"expression": "1 1 * * *"}),
            "revert": ("change_schedule", url("schedule", "revert", s), {}),
            "backfill": (
                "trigger_schedule",
                url("schedule", "backfill", s),
                {"start": "2026-01-01T00:00", "end": "2026-01-02T00:00"},
            ),
            "remove": ("delete_schedule", url("schedule", "delete", s), {}),
            "add": ("add_schedule", url("schedule", "add"), {"name": "x"}),
            "bulk pause": (
                "pause_schedule",
                url("schedule", "bulk") + f"?do=pause&id={s}",
                {"note": "n", "token": TOKEN},
            ),
            "bulk trigger": (
                "trigger_schedule",
                url("schedule", "bulk") + f"?do=trigger&id={s}",
                {"note": "n", "token": TOKEN},
            ),
            "cancel": ("cancel_run", url("run", "cancel", self.waiting.id), reason),
            "retry": ("retry_run", url("run", "retry", self.failed.id), {"token": TOKEN}),
            "replay": ("retry_run", url("run", "replay", self.failed.id), reason),
            "retry letters": ("retry_run", url("deadletter", "retry"), {"token": TOKEN}),
            "discard": ("retry_run", url("deadletter", "discard"), reason),
        }

    @staticmethod
    def state() -> list[Any]:
        return [
            list(Schedule.objects.order_by("id").values()),
            list(Run.objects.order_by("id").values()),
            list(DeadLetter.objects.order_by("id").values()),
            LogEntry.objects.count(),
        ]


ACTIONS = (
    "trigger",
    "pause",
    "resume",
    "edit",
    "revert",
    "backfill",
    "remove",
    "add",
    "bulk pause",
    "bulk trigger",
    "cancel",
    "retry",
    "replay",
    "retry letters",
    "discard",
)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_needs_its_permission_and_changes_nothing_without(
    login: Login, action: str
) -> None:
    # D1, security: permissions
    world = World()
    permission, address, data = world.actions()[action]
    others = {one for one, _, _ in world.actions().values()} - {permission}
    stranger = login(*VIEWS, *others, "view_payload")
    before = world.state()
    assert stranger.get(address).status_code == 403
    assert stranger.post(address, data).status_code == 403
    assert world.state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_open_to_those_who_have_its_permission(login: Login, action: str) -> None:
    # D1, security: permissions
    permission, address, _ = World().actions()[action]
    assert login(*VIEWS, permission, "view_payload").get(address).status_code == 200


@pytest.mark.parametrize("action", ACTIONS)
def test_looking_at_an_action_changes_nothing(browser: Client, action: str) -> None:
    # D1, security: POST and CSRF only
    world = World()
    _, address, data = world.actions()[action]
    before = world.state()
    joiner = "&" if "?" in address else "?"
    query = "&".join(f"{name}={value}" for name, value in data.items())
    assert browser.get(f"{address}{joiner}{query}").status_code == 200
    assert world.state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_without_the_csrf_token_is_refused(login: Login, action: str) -> None:
    # D1, security: POST and CSRF only
    world = World()
    permission, address, data = world.actions()[action]
    client = login(*VIEWS, permission, "view_payload", checks_csrf=True)
    before = world.state()
    assert client.post(address, data).status_code == 403
    assert world.state() == before


def test_pages_are_closed_to_strangers_and_to_staff_without_permission(login: Login) -> None:
    # D1, security: permissions
    rows.schedule()
    nobody = login()
    for model in LISTS:
        assert Client().get(url(model)).status_code == 302, model
        assert nobody.get(url(model)).status_code == 403, model


def test_a_missing_permission_is_named_on_the_button(login: Login) -> None:
    # D1, security: permissions
    schedule = rows.schedule()
    page = login(*VIEWS).get(url("schedule", "change", schedule.id)).content.decode()
    assert "needs trigger_schedule" in page
    assert url("schedule", "trigger", schedule.id) not in page


def test_rows_may_be_decided_one_by_one(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # D1, security: bulk by row
    mine, foreign = rows.schedule("mine"), rows.schedule("foreign")
    section = _section("schedule")
    general = type(section).may

    def may(self: Any, request: Any, permission: str, obj: Any = None) -> bool:
        return general(self, request, permission, obj) and getattr(obj, "name", "") != "foreign"

    monkeypatch.setattr(type(section), "may", may)
    address = url("schedule", "bulk") + f"?do=pause&id={mine.id}&id={foreign.id}"
    assert "you may not do this to them" in browser.get(address).content.decode()
    browser.post(address, {"note": "x", "token": TOKEN})
    mine.refresh_from_db()
    foreign.refresh_from_db()
    assert (mine.is_paused, foreign.is_paused) == (True, False)
    assert browser.get(url("schedule", "trigger", foreign.id)).status_code == 403


def _section(model: str) -> Any:
    from django.contrib import admin

    return admin.site.get_model_admin({"schedule": Schedule, "run": Run}[model])


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "builtins.eval", "tests"])
def test_only_registered_jobs_can_be_scheduled(browser: Client, name: str) -> None:
    # D1, security: registered jobs only
    data = {
        "name": "evil",
        "job": name,
        "kind": "cron",
        "expression": "* * * * *",
        "timezone": "UTC",
        "overlap": "skip",
        "misfire": "skip",
        "max_catch_up": "1",
        "enabled": "on",
        "input": '{"command": "touch /tmp/canary"}',
    }
    response = browser.post(url("schedule", "add"), data)
    assert response.status_code == 200
    assert not Schedule.objects.filter(name="evil").exists()


def test_a_job_that_was_written_past_the_form_cannot_be_triggered(browser: Client) -> None:
    # D1, security: registered jobs only
    schedule = rows.schedule()
    Schedule.objects.filter(id=schedule.id).update(job="os.system", input={"command": "true"})
    address = url("schedule", "trigger", schedule.id)
    browser.post(address, {"reason": "x", "token": TOKEN, "overlap": "wait"})
    assert not Run.objects.exists()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text_everywhere(browser: Client, text: str) -> None:
    # D1, security: escaping
    rows.leader(holder=text)
    schedule = rows.schedule(f"s {text}"[:190])
    schedule.pause(note=text, by=text)
    Schedule.objects.filter(id=schedule.id).update(
        note=text, error=text, rule=text, job=text, input={text: text}
    )
    schedule.refresh_from_db()
    run = rows.failed(
        schedule,
        error=f"Error: {text}",
        traceback=f'  File "{text}", line 1\n{text}',
        node=text,
        key=text,
        result={text: text},
        input={text: text},
        progress_message=text,
        meta={"by": text, "why": text},
        queue=text,
    )
    rows.run(schedule, State.RUNNING, node=text, progress_message=text)
    rows.node(text, host=text, version=text, queues=[text], jobs=[text])
    letter = DeadLetter.objects.get()
    pages = [
        *(url(model) for model in ("dashboard", "schedule", "run", "deadletter", "node")),
        url("joblist"),
        url("load"),
        url("run", "change", run.id),
        url("schedule", "change", schedule.id),
        url("schedule", "pause", schedule.id),
        url("schedule", "edit", schedule.id),
        url("schedule", "history", schedule.id),
        url("deadletter", "retry"),
        url("run") + "?q=" + text,
        url("run") + "?node=" + text + "&job=" + text + "&queue=" + text,
        url("schedule") + "?q=" + text,
        f"{url('deadletter')}?show=closed&x={letter.id}",
    ]
    for page in pages:
        html = browser.get(page).content.decode()
        assert "<script>alert" not in html, page
        assert "<img src=x" not in html, page
        assert "<svg onload" not in html, page
        assert 'href="javascript:' not in html, page
        assert "49" not in re.findall(r"s (\d\d)\b", html), page


@pytest.mark.parametrize("model", ["schedule", "run", "deadletter", "node", "dashboard"])
@pytest.mark.parametrize(
    "query",
    [
        "q=%27%3B+DROP+TABLE+x%3B--",
        "schedule=1+OR+1%3D1",
        "before=zzz&first=%00&last=1",
        "page=99999999999999999999",
        "state=%27&within=9999d&range=x&show=%22",
        "at=2026-13-45&refresh=-1",
        "o=1%2C2&all=1&e=1",
    ],
)
def test_nonsense_in_the_address_is_harmless(browser: Client, model: str, query: str) -> None:
    # D1, security: queries
    rows.run(rows.schedule())
    assert browser.get(f"{url(model)}?{query}").status_code == 200


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/passwd", "Europe/Berlin\0", "x" * 500])
def test_a_zone_comes_from_the_known_ones_only(browser: Client, zone: str) -> None:
    # D1, security: input of rules
    schedule = rows.schedule()
    data = {
        "kind": "cron",
        "expression": "0 1 * * *",
        "timezone": zone,
        "job": "tests.add",
        "overlap": "skip",
        "misfire": "skip",
        "max_catch_up": "1",
        "input": '{"a": 1, "b": 2}',
        "start_at": "2026-01-01T00:00",
        "version": schedule.version,
    }
    response = browser.post(url("schedule", "edit", schedule.id), data)
    assert response.status_code == 200
    schedule.refresh_from_db()
    assert schedule.timezone == "Europe/Berlin"


def test_secrets_are_masked_on_every_page(browser: Client) -> None:
    # D1, security: secrets
    canary = "canary-4711-secret"
    schedule = rows.schedule("echo", job="tests.echo", input={"value": "shown", "secret": canary})
    run = rows.failed(
        schedule,
        error=f"ValueError: {canary} was refused",
        input={"value": "shown", "secret": canary},
        result={"echo": canary},
    )
    rows.leader()
    pages = [
        *(url(model) for model in ("dashboard", "schedule", "run", "deadletter")),
        url("run", "change", run.id),
        url("run", "replay", run.id),
        url("run", "retry", run.id),
        url("schedule", "change", schedule.id),
        url("schedule", "trigger", schedule.id),
        url("schedule", "edit", schedule.id),
        url("deadletter", "retry"),
    ]
    for page in pages:
        html = browser.get(page).content.decode()
        assert canary not in html, page
    assert "was refused" in browser.get(url("run", "change", run.id)).content.decode()


def test_a_masked_secret_survives_an_edit_and_a_trigger(browser: Client) -> None:
    # D1, security: secrets
    stored = {"value": "shown", "secret": "canary-4711"}
    schedule = rows.schedule("echo", job="tests.echo", input=stored)
    address = url("schedule", "edit", schedule.id)
    form = browser.get(address).context["form"]
    data = {field.html_name: field.value() for field in form if field.value() is not None}
    browser.post(address, {**data, "misfire": "catch_up_one"})
    schedule.refresh_from_db()
    assert (schedule.misfire, schedule.input) == ("catch_up_one", stored)
    data = {"reason": "x", "token": TOKEN, "overlap": "wait", "input_value": '"other"'}
    browser.post(url("schedule", "trigger", schedule.id), data)
    assert Run.objects.get().input == {"value": "other", "secret": "canary-4711"}


def test_payloads_are_shown_only_with_their_own_permission(login: Login) -> None:
    # D1, security: secrets
    run = rows.run(rows.schedule(), input={"a": 987654321, "b": 2}, result="result-4711")
    without = login(*VIEWS).get(url("run", "change", run.id)).content.decode()
    assert "987654321" not in without
    assert "result-4711" not in without
    granted = login(*VIEWS, "view_payload").get(url("run", "change", run.id)).content.decode()
    assert "987654321" in granted
    assert "result-4711" in granted


def test_whoever_may_not_see_the_input_triggers_with_the_stored_one(login: Login) -> None:
    # D1, security: secrets
    schedule = rows.schedule()
    client = login(*VIEWS, "trigger_schedule")
    address = url("schedule", "trigger", schedule.id)
    assert "input_a" not in client.get(address).content.decode()
    data = {"reason": "x", "token": TOKEN, "overlap": "wait", "input_a": "666"}
    client.post(address, data)
    assert Run.objects.get().input == {"a": 1, "b": 2}


def test_pages_have_no_inline_script_or_style(browser: Client) -> None:
    # D1, security: escaping
    schedule = rows.schedule()
    run = rows.failed(schedule)
    pages = [
        *(
            url(m)
            for m in ("dashboard", "schedule", "run", "deadletter", "node", "joblist", "load")
        ),
        url("run", "change", run.id),
        url("schedule", "change", schedule.id),
        url("schedule", "edit", schedule.id),
        url("schedule", "pause", schedule.id),
    ]
    for page in pages:
        html = browser.get(page).content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", html), page
        assert not re.search(r"<[^>]+\s(style|on\w+)=", html), page
        assert "<style" not in html, page
        assert not re.search(r'(src|href)="(https?:)?//', html), page


def test_a_run_cannot_be_changed_through_djangos_own_views(browser: Client) -> None:
    # B2
    run = rows.run()
    assert browser.post(url("run", "change", run.id), {"status": "failed"}).status_code == 405
    assert browser.get(url("run", "delete", run.id)).status_code == 403
    assert browser.get(url("run", "add")).status_code == 403
    assert browser.post(url("run"), {"action": "delete_selected"}).status_code == 200
    run.refresh_from_db()
    assert run.status == State.COMPLETED


def test_an_unreadable_database_is_said_so_and_no_table_is_shown(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    def broken() -> pulse.Pulse:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr("sync_scheduler.admin.section.feel", broken)
    response = browser.get(url("run"))
    assert response.status_code == 503
    html = response.content.decode()
    assert conf.get().DATABASE in html
    assert "OperationalError" in html
    assert "closed the connection" not in html
    assert "ss-table" not in html


def test_who_did_what_cannot_be_missed(browser: Client) -> None:
    # D1, security: audit
    world = World()
    for name in ("trigger", "pause", "cancel", "retry"):
        _, address, data = world.actions()[name]
        browser.post(address, data)
    entries = LogEntry.objects.order_by("id")
    assert [str(entry.user) for entry in entries] == ["ops"] * 4
    history = browser.get(url("schedule", "history", world.schedule.id)).content.decode()
    assert "because" in history
