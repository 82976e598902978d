"""Somebody falls silent in the middle of a transaction of ours; others need its rows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError, connection, connections, transaction
from pytest_django import Settings

from sync_scheduler.models import Run
from sync_scheduler.store.locking import is_outage, releasing_transaction, short_transaction
from tests.integration.store.runs import make
from tests.services.server import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        "connection.vendor == 'sqlite'",
        reason="SQLite locks the file; nobody but its process can let go",
    ),
]


@pytest.fixture(autouse=True)
def _short_lease(settings: Settings) -> None:
    # Half of it must be enough to ask over another connection, on a busy machine too.
    settings.SYNC_SCHEDULER = {"LEADER_LEASE": 8, "LEADER_HEARTBEAT": 0.1}


@pytest.fixture(params=["of the server at hand", "as on MySQL"])
def _limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB has what MySQL has, so that both ways can be gone there."""
    if request.param == "as on MySQL":
        if connection.vendor != "mysql":
            pytest.skip("another way there is on MySQL only")
        monkeypatch.setitem(vars(connection), "mysql_is_mariadb", False)


def is_free(run: Run) -> bool:
    """Asked over another connection: may somebody else have the row?"""
    found = []

    def ask() -> None:
        with contextlib.closing(connections["default"]), transaction.atomic():
            rows = Run.objects.filter(id=run.id).select_for_update(skip_locked=True)
            found.append(rows.exists())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found == [True]


@contextlib.contextmanager
def broken() -> Generator[None, None, None]:
    with pytest.raises((DatabaseError, InterfaceError)) as caught:
        yield
    # A worker whose outcomes meet this keeps them for later, it does not give them up.
    assert is_outage(caught.value)
    connection.close()


def limits() -> dict[str, Any]:
    """What the session of this connection is told about silence."""
    if connection.vendor == "mysql":
        statement = "SHOW SESSION VARIABLES WHERE Variable_name IN"
        statement += " ('wait_timeout', 'idle_transaction_timeout')"
    else:
        statement = "SELECT name, setting FROM pg_settings WHERE name LIKE '%timeout'"
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return dict(cursor.fetchall())


@pytest.mark.usefixtures("_limit")
def test_rows_of_a_silent_transaction_are_free_after_half_a_lease_and_nothing_is_written() -> None:
    # faults A3, L3
    run = make()
    with broken(), releasing_transaction():
        Run.objects.filter(id=run.id).update(priority=7)
        assert not is_free(run)
        wait_until(lambda: is_free(run), seconds=60, what="the row is free")
    assert Run.objects.get(id=run.id).priority != 7


@pytest.mark.usefixtures("_limit")
@pytest.mark.parametrize("begin", [releasing_transaction, short_transaction])
def test_a_session_is_afterwards_what_it_was_before(begin: Any) -> None:
    # L3: a connection that waits between two transactions is not silent in one
    before = limits()
    with begin():
        assert limits() != before
    assert limits() == before
    with contextlib.suppress(ZeroDivisionError), begin():
        raise ZeroDivisionError
    assert limits() == before


def test_a_transaction_of_somebody_else_may_be_silent_as_long_as_it_likes() -> None:
    # L3: an atomic handler may wait for an answer of the network
    before = limits()
    with transaction.atomic():
        with releasing_transaction():
            assert limits() == before
        assert limits() == before
