"""A Run that kills its process again and again is dead after so many crashes."""

from __future__ import annotations

import pytest

from sync_scheduler import conf
from sync_scheduler.models import Run
from sync_scheduler.store import claims
from sync_scheduler.work import complete
from tests.testapp import jobs

pytestmark = pytest.mark.django_db


def test_a_run_that_kills_its_process_dies_of_it() -> None:  # A17
    run = jobs.noop.using(max_attempts=50).submit()
    limit, crashes = conf.get().CRASH_LIMIT, 0
    while not run.is_finished:
        (claim,) = claims.claim([run.id], "node", {run.job})
        complete.settle([complete.crashed(claim, "node", "it died", guilty=True, limit=limit)])
        crashes += 1
        assert crashes <= limit
        run = Run.objects.get(id=run.id)

    assert (run.status, run.reason, run.crashes) == ("failed", "crashed", limit)
    assert crashes == limit


def test_a_neighbour_of_a_crash_is_not_charged() -> None:  # A17
    run = jobs.noop.submit()
    for _ in range(conf.get().CRASH_LIMIT + 1):
        (claim,) = claims.claim([run.id], "node", {run.job})
        complete.settle([complete.crashed(claim, "node", "it died", guilty=False, limit=3)])

    run.refresh_from_db()
    assert (run.status, run.attempt, run.crashes, run.suspect) == ("submitted", 0, 0, True)
