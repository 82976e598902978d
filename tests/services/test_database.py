"""The database of the run, as TEST_DATABASE chose it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.contrib.auth.models import Group
from django.db import connection


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
