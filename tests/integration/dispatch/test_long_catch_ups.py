"""A schedule that makes up for thousands of slots at once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection

from sync_scheduler import every
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import portable_slots
from sync_scheduler.store.locking import speaks_arrays
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

START = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)


def test_nothing_is_computed_for_each_slot_while_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # A4, A14
    if speaks_arrays():
        pytest.skip("this database does it in one statement")
    made: list[bool] = []
    draft = portable_slots._draft

    def watched(*given: Any) -> Run:
        made.append(connection.in_atomic_block)
        return draft(*given)

    monkeypatch.setattr(portable_slots, "_draft", watched)
    Schedule.objects.register(
        "minutely", job=jobs.noop, rule=every(minutes=1, start=START), misfire="catch_up_all"
    )
    Schedule.objects.update(next_run_at=START)
    tick(lead(), START + dt.timedelta(minutes=50))

    # A server ends the session of a transaction that is silent, and with it the whole tick.
    assert made == [False] * 51
    assert Run.objects.count() == 51
