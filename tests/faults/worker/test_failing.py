"""Runs that fail again and again."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

from sync_scheduler.models import Attempt, DeadLetter, Run
from tests.faults.bounds import bound
from tests.faults.harness import Site
from tests.testapp import jobs


def test_two_hundred_runs_that_always_fail_end_as_dead_letters_and_starve_nobody(
    working: Site,
) -> None:
    # B6; W15, faults A18 (runs that submit runs: test_handlers)
    failing = jobs.fail_again.submit_many([{}] * 200)
    working.wait(lambda: len(working.lines()) > 50, "they are failing")
    healthy = [jobs.add.submit(a=1, b=n) for n in range(10)]
    working.wait_ended([*healthy, *failing], 60)
    # By what the rows say: all of them may be through before anybody has looked.
    ends = Run.objects.order_by("-finished_at").values_list("finished_at", flat=True)
    last = ends.filter(job="tests.fail_again")[0], ends.filter(job="tests.add")[0]
    assert last[0] is not None and last[1] is not None
    assert last[1] < last[0], "the failing ones were through before the others came"

    assert set(Run.objects.filter(job="tests.fail_again").values_list("status", "attempt")) == {
        ("failed", 4)
    }
    starts = [line for line in working.lines() if line.startswith("start fail_again")]
    assert len(starts) == len(set(starts)) == 4 * 200
    assert DeadLetter.objects.filter(job="tests.fail_again").count() == 200
    pauses = set()
    by_run: dict[object, list[Attempt]] = {}
    for attempt in Attempt.objects.filter(run__job="tests.fail_again").order_by("number"):
        by_run.setdefault(attempt.run_id, []).append(attempt)
    for attempts in by_run.values():
        for before, after in pairwise(attempts):
            assert before.retry_at is not None
            assert before.finished_at <= before.retry_at <= after.started_at
            pauses.add(before.retry_at - before.finished_at)
    # Spread by chance, not all at once.
    assert len(pauses) > 300
    # Half a second at most, counted from when the node has heard of the failure.
    assert max(pauses) <= dt.timedelta(seconds=bound(1, beside_others=30))
