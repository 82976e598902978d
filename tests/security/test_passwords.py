"""The passwords of the servers appear nowhere that people or machines read."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from sync_scheduler import checks
from sync_scheduler.coordination import announcer, client
from sync_scheduler.dispatch.leadership import Leadership
from sync_scheduler.errors import ServiceUnavailable
from tests.services import redis_server
from tests.services.plugin import provide
from tests.services.ports import free_port
from tests.testapp import jobs

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-7f3a91"


@pytest.mark.parametrize("trouble", ["nobody answers", "the password is wrong"])
@pytest.mark.django_db
def test_the_password_of_redis_is_not_told(
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    client_of_staff: Client,
    trouble: str,
) -> None:  # S14
    acl = ["user default off", "user app on >right ~* &* +@all"]
    with provide("redis", lambda: redis_server.start(acl=acl)) as server:
        port = free_port() if trouble == "nobody answers" else server.port
        url = f"redis://app:{CANARY}@127.0.0.1:{port}/0?client_name={CANARY}"
        settings.SYNC_SCHEDULER = {"REDIS_URL": url}
        caplog.set_level(logging.DEBUG)
        said = [str(fault) for fault in [*checks.start_up_faults(), *run_checks()]]
        with pytest.raises(ServiceUnavailable) as refused:
            client.require_usable()
        said.append(str(refused.value) + repr(refused.value))
        assert refused.value.__cause__ is None
        jobs.noop.submit()
        announcer.flush(5)
        leadership = Leadership("node")
        leadership.step()
        leadership.resign("the test is over")
        for action in (["status"], ["status", "--json"], ["doctor"]):
            try:
                call_command("scheduler", *action)
            except (SystemExit, Exception) as error:  # noqa: BLE001
                said.append(repr(error))
        for page in ("/admin/sync_scheduler/schedule/", "/admin/sync_scheduler/node/"):
            said.append(client_of_staff.get(page, follow=True).content.decode())
    printed = capsys.readouterr()
    said += [printed.out, printed.err, caplog.text]
    assert any("Redis at redis://127.0.0.1" in text for text in said), "it says which server"
    assert not [text for text in said if CANARY in text]


@pytest.fixture
def client_of_staff(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    return browser


@pytest.mark.parametrize(
    "command", ["check --database default", "scheduler doctor", "runscheduler"]
)
def test_the_passwords_of_both_servers_are_not_told(command: str) -> None:  # S14
    pytest.importorskip("psycopg")
    port = free_port()
    result = subprocess.run(
        [sys.executable, "-X", "dev", "-m", "django", *command.split()],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_DATABASE": "postgres",
            "TEST_DATABASE_URL": f"postgres://app:{CANARY}@127.0.0.1:{port}/shop",
            "SYNC_SCHEDULER_REDIS_URL": f"redis://app:{CANARY}@127.0.0.1:{port}/0",
        },
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = result.stdout + result.stderr
    assert result.returncode != 0 or command.startswith("check")
    assert CANARY not in said
