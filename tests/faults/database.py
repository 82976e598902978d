"""Point this process's own models at a test's database for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext

import environ
from django.db import DatabaseError, InterfaceError, connections
from pytest_django import DjangoDbBlocker

from tests.services.server import wait_until

# Set when the tests begin; outside of its fixtures pytest-django lets nobody at the database.
blocker: DjangoDbBlocker | None = None


@contextmanager
def connected_to(url: str) -> Generator[None, None, None]:
    before, outside = connections.settings["default"], connections["default"]
    connections.settings["default"] = {
        **before,
        **environ.Env.db_url_config(url),
        "OPTIONS": {"connect_timeout": 5},
    }
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"] = before
        connections["default"] = outside


@contextmanager
def looking_at(url: str) -> Generator[None, None, None]:
    """The same from anywhere in a test, also where no fixture has opened a database."""
    assert blocker is not None
    with blocker.unblock(), connected_to(url):
        yield


def end_sessions(name: str) -> None:
    """Until PostgreSQL has none of this name: what a killed process has sent may still be done."""
    with blocker.unblock() if blocker is not None else nullcontext():
        connection = connections["default"]
        if connection.vendor != "postgresql":
            return
        try:
            wait_until(lambda: not _end(name), seconds=20, what=f"sessions of {name} are gone")
        except (DatabaseError, InterfaceError):
            connection.close()  # a server that is down has no sessions


def _end(name: str) -> int:
    """How many there were; those of a pooler outlive its clients and must be told."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [name],
        )
        return len(cursor.fetchall())
