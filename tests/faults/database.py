"""Point this process's own models at a test's database for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import environ
from django.db import connections
from pytest_django import DjangoDbBlocker

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
