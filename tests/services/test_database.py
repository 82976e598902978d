"""The database of the run, as TEST_DATABASE chose it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from tests.services.plugin import EXIT_UNAVAILABLE


@pytest.mark.django_db(transaction=True)
def test_a_subprocess_meets_the_same_database() -> None:
    Group.objects.create(name="written by the test")
    script = (
        "import django; django.setup()\n"
        "from django.contrib.auth.models import Group\n"
        "print(Group.objects.get().name)\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "written by the test\n", result.stderr


@pytest.mark.django_db
def test_the_database_is_the_one_that_was_asked_for() -> None:
    vendors = {"sqlite": "sqlite", "postgres": "postgresql", "mysql": "mysql"}
    assert connection.vendor == vendors[os.environ["TEST_DATABASE"]]


@pytest.mark.django_db
def test_sqlite_lets_readers_go_on_while_somebody_writes() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has a journal mode")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)


@pytest.mark.parametrize(("ci", "code"), [("", EXIT_UNAVAILABLE), ("true", 1)])
def test_a_run_whose_database_is_missing_ends_with_the_reason(
    tmp_path: Path, ci: str, code: int
) -> None:
    # Shadows the driver, as if it were not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'MySQLdb' else find(name, *rest)\n"
    )
    environment = {**os.environ, "CI": ci, "TEST_DATABASE": "mysql", "PYTHONPATH": str(tmp_path)}
    environment.pop("TEST_DATABASE_URL", None)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", __file__],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code
    assert result.stderr == (
        "TEST_DATABASE=mysql cannot be tested here: mysqlclient is not installed (extra [mysql])\n"
    )
