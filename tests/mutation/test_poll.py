"""The database's poll is the guarantee behind Redis."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.processes import source as sources
from sync_scheduler.processes.source import Source
from tests.services.server import wait_until

pytestmark = pytest.mark.django_db


def test_what_redis_never_heard_of_is_polled_for(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # C4
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    # Long enough that it is not due before anybody has asked.
    monkeypatch.setattr(sources, "_SLOW_POLL", 2.0)
    source = Source((), lambda: None)
    try:
        assert source.ids(10) == []
        source.polled(full=False)
        assert source.seconds_to_poll() > 0
        before = clock.monotonic()
        wait_until(source.poll_is_due, seconds=30, what="the poll is due while Redis works")
        assert clock.monotonic() >= before
    finally:
        source.stop()
