"""What is wrong is said in one sentence, before anything starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, SystemCheckError
from django.db import connection
from pytest_django import Settings

from sync_scheduler import checks, every, job
from sync_scheduler.jobs import registry
from sync_scheduler.management.actions import cluster
from tests.services.ports import free_port


@pytest.fixture(name="configured")
def _configured(settings: Settings) -> Settings:
    return settings


def ids(found: object) -> list[str]:
    assert isinstance(found, list)
    return [message.id for message in found]


def test_a_lease_that_heartbeats_cannot_keep_is_a_warning() -> None:
    # B9
    @job(name="tests.short_lease", lease=9)
    def short_lease() -> None: ...

    try:
        found = [message for message in checks.check_leases() if "short_lease" in message.msg]
        assert ids(found) == [checks.W002]
        assert "a lease of 9 s, which two heartbeats (10 s) outlast" in found[0].msg
    finally:
        registry.remove("tests.short_lease")


def test_a_schedule_that_is_declared_twice_is_an_error() -> None:
    # A16, C7: only one of them would run, and nobody would know
    @job(name="tests.one_nightly", schedule=every(hours=1, name="nightly"))
    def one() -> None: ...

    @job(name="tests.other_nightly", schedule=[every(hours=2, name="nightly")])
    def other() -> None: ...

    try:
        (found,) = checks.check_schedules()
        assert found.id == checks.E005
        assert "'nightly'" in found.msg
        assert one.where in found.msg
        assert other.where in found.msg
        with pytest.raises(SystemCheckError, match=r"sync_scheduler\.E005"):
            call_command("check")
        assert ids(checks.start_up_faults()) == [checks.E005]
    finally:
        registry.remove("tests.one_nightly")
        registry.remove("tests.other_nightly")
    assert checks.check_schedules() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"regoin": "eu"}, "takes no argument 'regoin'; it takes region."),
        ({}, "needs the argument 'region'."),
        ({"region": 7}, "argument 'region' must be"),
        (["eu"], "input must be a dict."),
    ],
)
def test_a_schedule_whose_job_does_not_take_its_input_is_a_warning(
    given: Any, sentence: str
) -> None:
    # B3, C7: it is left out when schedules are stored, and would be missed when it should run
    @job(name="tests.regional", schedule=every(hours=1, name="regional", input=given))
    def regional(region: str) -> None: ...

    try:
        (found,) = checks.check_inputs()
        assert found.id == checks.W003
        assert found.msg.startswith("The schedule 'regional' cannot be stored: ")
        assert sentence in found.msg
        assert regional.where in str(found.hint)
        call_command("check")
        assert checks.start_up_faults() == []
        found_by_doctor = [one for one in cluster.look() if one.message == found.msg]
        assert [one.level for one in found_by_doctor] == ["error"]
    finally:
        registry.remove("tests.regional")
    assert checks.check_inputs() == []


def test_every_wrong_setting_is_a_check_of_its_own(configured: Settings) -> None:
    # C7
    configured.SYNC_SCHEDULER = {"THREADS": 0, "UNKNOWN": 1}
    found = checks.check_settings()
    assert ids(found) == [checks.E001, checks.E001]
    assert all(message.hint for message in found)
    with pytest.raises(SystemCheckError, match=r"sync_scheduler\.E001"):
        call_command("check")


def test_right_settings_pass(configured: Settings) -> None:
    # C7
    configured.SYNC_SCHEDULER = {"LEADER_LEASE": 2}
    assert checks.check_settings() == []


def test_a_project_without_time_zones_is_refused_in_one_sentence(configured: Settings) -> None:
    # C7
    configured.USE_TZ = False
    found = checks.check_settings()
    assert ids(found) == [checks.E001]
    assert found[0].msg.startswith("USE_TZ must be True")
    with pytest.raises(SystemCheckError, match=r"USE_TZ must be True"):
        call_command("check")
    with pytest.raises(CommandError, match=r"^USE_TZ must be True"):
        call_command("runscheduler")
    with pytest.raises(CommandError, match=r"^USE_TZ must be True"):
        call_command("scheduler", "status")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata"])
def test_a_database_that_would_hold_local_times_is_refused(
    zone: str, configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7, C8: what is compared with the database's clock would be hours off, and once a year there
    # is an hour that could not be stored at all
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", "UTC")
    configured.SYNC_SCHEDULER = {}
    assert checks.check_settings() == []
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", zone)
    configured.SYNC_SCHEDULER = {}
    found = checks.check_settings()
    if connection.features.supports_timezones:
        assert found == []
        return
    assert ids(found) == [checks.E001]
    assert found[0].msg.startswith("DATABASES['default']['TIME_ZONE'] must be left out")
    with pytest.raises(CommandError, match=r"^DATABASES\['default'\]\['TIME_ZONE'\]"):
        call_command("runscheduler")


def test_a_database_without_autocommit_is_refused(
    configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    configured.SYNC_SCHEDULER = {}
    found = checks.check_settings()
    assert ids(found) == [checks.E001]
    assert found[0].msg.startswith("DATABASES['default']['AUTOCOMMIT'] must be True")


def test_sqlite_without_immediate_transactions_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # C7
    if connection.vendor != "sqlite":
        assert checks.check_database(databases=["default"]) == []
        return
    assert checks.check_database(databases=["default"]) == []
    monkeypatch.setitem(settings.DATABASES["default"], "OPTIONS", {})
    assert ids(checks.check_database(databases=["default"])) == [checks.W001]
    assert checks.check_database(databases=[]) == []


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:port/0",
        "redis://127.0.0.1:99999/0",
        "redis://:half/secret@127.0.0.1:6379/0",
        "redis://:123/half@127.0.0.1:6379/0",
        "redis://user:123?half@127.0.0.1:6379/0",
        "redis://user:123#half@127.0.0.1:6379/0",
        "redis://user:half@[::1:6379/0",
        "redis://127.0.0.1:6379/0?no_such_option=1",
        "rediss://127.0.0.1:port",
        "redis+cluster://127.0.0.1:port",
        "redis+sentinel://127.0.0.1:port/main",
        "redis+sentinel://127.0.0.1:26379/main/db",
        "redis+sentinel://127.0.0.1:26379",
    ],
)
def test_a_url_of_redis_that_cannot_be_read_is_a_wrong_setting(
    configured: Settings, url: str
) -> None:
    # C7, C8
    configured.SYNC_SCHEDULER = {"REDIS_URL": url}
    found = checks.check_settings()
    assert ids(found) == [checks.E001]
    assert found[0].msg.startswith("REDIS_URL ")
    assert "half" not in found[0].msg
    for options in ({}, {"deploy": True}):
        with pytest.raises(SystemCheckError, match=r"sync_scheduler\.E001") as refused:
            call_command("check", **options)
        assert "half" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:pass%2Fword@127.0.0.1:6379/3",
        "rediss://127.0.0.1:6379/0?ssl_cert_reqs=none",
        "unix:///run/redis.sock?db=2",
        "redis+sentinel://one:26379,two/main/0",
        "redis+sentinel://user:word@[::1]:26380/main/0?sentinel_password=w@rd",
        "redis+cluster://127.0.0.1:6379",
        "rediss+cluster://127.0.0.1",
    ],
)
def test_a_url_of_redis_in_each_form_is_right(configured: Settings, url: str) -> None:
    # C8
    configured.SYNC_SCHEDULER = {"REDIS_URL": url}
    assert checks.check_settings() == []


@pytest.mark.django_db
def test_nothing_is_wrong_here(configured: Settings) -> None:
    # C7
    configured.SYNC_SCHEDULER = {}
    assert checks.start_up_faults() == []


@pytest.mark.django_db
def test_a_missing_redis_stops_the_start(configured: Settings) -> None:
    # C7
    configured.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    assert ids(checks.start_up_faults()) == [checks.E003]
    with pytest.raises(CommandError, match="does not answer"):
        call_command("runscheduler")


@pytest.mark.django_db
def test_a_missing_redis_is_found_by_the_checks_of_a_deployment(configured: Settings) -> None:
    # C7
    configured.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    with pytest.raises(SystemCheckError, match=r"sync_scheduler\.E003"):
        call_command("check", deploy=True)
    call_command("check")


def test_a_missing_migration_is_found_by_the_checks_of_a_deployment(tmp_path: Path) -> None:
    # C7: and by no others, or nobody could migrate
    url = f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    done = run_on(url, "check", "--deploy")
    assert done.returncode == 1
    assert "sync_scheduler.E002" in done.stderr
    assert run_on(url, "check").returncode == 0


def run_on(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DATABASE": url.split(":")[0],
        "TEST_DATABASE_URL": url,
    }
    return subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_missing_migration_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    # C7
    done = run_on(f"sqlite:///{tmp_path / 'empty.sqlite3'}", "runscheduler", "--drain")
    assert done.returncode == 1
    assert "lacks the migration 0001_initial of sync_scheduler" in done.stderr
    assert "Run `manage.py migrate` first." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["status"], ["list", "--json"], ["trigger", "nightly"]])
def test_a_missing_migration_is_what_every_action_names(
    tmp_path: Path, arguments: list[str]
) -> None:
    # C7, D3: and not the table that it would make
    done = run_on(f"sqlite:///{tmp_path / 'empty.sqlite3'}", "scheduler", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "lacks the migration 0001_initial of sync_scheduler." in line
    assert "Run `manage.py migrate` first." in line


def test_an_unreachable_database_stops_the_start_with_one_sentence() -> None:
    # C7
    url = f"postgres://nobody@127.0.0.1:{free_port()}/nothing"
    done = run_on(url, "runscheduler", "--drain")
    assert done.returncode == 1
    assert "The database 'default' cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_environment_variable_stops_the_start_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # C7
    monkeypatch.setenv("SYNC_SCHEDULER_NODE_LEASE", "long")
    done = run_on(f"sqlite:///{tmp_path / 'empty.sqlite3'}", "runscheduler")
    assert done.returncode == 1
    assert "SYNC_SCHEDULER_NODE_LEASE must be a number" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-work", "--no-dispatch"], "leave nothing to do"),
        (["--processes=-1"], "--processes"),
        (["--threads=-1"], "--threads"),
        (["--no-work", "--drain"], "nothing would ever end"),
        (["--health-port=-1"], "--health-port"),
        (["--health-port=65536"], "--health-port"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], words: str) -> None:
    # D3
    with pytest.raises(CommandError, match=words):
        call_command("runscheduler", *arguments)


def test_a_health_port_that_is_taken_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    # C7
    url = f"sqlite:///{tmp_path / 'site.sqlite3'}"
    assert run_on(url, "migrate").returncode == 0
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_on(url, "runscheduler", "--no-work", f"--health-port={port}")
    assert done.returncode == 1
    assert f"The health port {port} cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_the_package_touches_no_model_and_no_server() -> None:
    # B1
    code = (
        "import sys, sync_scheduler\n"
        "from sync_scheduler import job, cron\n"
        "assert not any(m.startswith('sync_scheduler.models') for m in sys.modules)\n"
        "assert 'redis' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
