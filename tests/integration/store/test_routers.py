"""A project may read from a replica; the scheduler never does."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from sync_scheduler import cron
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import claims, nodes
from sync_scheduler.store.locking import database_now
from tests.integration.dispatch.leading import lead
from tests.integration.store.runs import record
from tests.testapp import jobs

pytestmark = pytest.mark.django_db


class Replica:
    """Sends every read to a database that does not even exist here, so that none goes unseen."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model._meta.app_label == "sync_scheduler" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return None


@override_settings(DATABASE_ROUTERS=[f"{__name__}.Replica"])
def test_nothing_is_read_from_a_replica_that_lags_behind() -> None:
    # E6: a row that has not arrived there would look as if it did not exist
    run = jobs.noop.using(key="once").submit()
    assert jobs.noop.using(key="once").submit().id == run.id
    nodes.beat("node", running=0, clock_offset=0.0)
    (claim,) = claims.claim([run.id], "node", ["tests.noop"])
    assert record(claim, State.FAILED, error="no").accepted == {run.id}
    assert run.join(timeout=1).status == "failed"
    assert [event.kind for event in run.events()] == ["submitted", "started", "failed"]
    again = run.retry()
    assert again.cancel()
    assert again.status == "cancelled"
    schedule = Schedule.objects.register("s", job=jobs.noop, rule=cron("* * * * *")).schedule
    schedule.pause(note="why")
    schedule.resume()
    schedule.trigger_now()
    assert schedule.next_run_at is not None
    tick(lead(), schedule.next_run_at)
    assert Run.objects.filter(schedule_id=schedule.pk, trigger="slot").count() == 1
    assert schedule.next_run_at > database_now()
    assert list(schedule.preview(1)) != []
    assert Schedule.objects.unregister("s")
