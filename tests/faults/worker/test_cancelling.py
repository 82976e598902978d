"""Runs that are cancelled at every moment of their lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from sync_scheduler import cron
from sync_scheduler.models import Run, Schedule
from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.harness import QUICK, Site, audit
from tests.faults.seed import chance
from tests.services import Server
from tests.testapp import jobs
from tests.testapp.models import Counter, Effect


def test_a_cancel_at_any_moment_is_decided_once(site: Site) -> None:
    # B2, B8, B12; W18, faults A19
    draw = chance("A19")
    site.start("--no-dispatch", "--processes=1")
    Counter.objects.create(name="all")
    answers: dict[Run, bool] = {}
    atomic: list[Run] = []
    for number in range(60):
        run = (
            jobs.atomic_count.submit(name="all")
            if number % 2
            else jobs.wait.submit(seconds=draw.choice([0.0, 0.05]))
        )
        if number % 2:
            atomic.append(run)
        # From "not yet claimed" through "running" and "just completing" to "long over".
        if number % 10 == 9:
            site.wait_ended([run])
        elif number % 10:
            time.sleep(draw.choice([0.01, 0.03, 0.06, 0.15, 0.3]))
        answers[run] = run.cancel(reason="not needed")
    site.wait_ended(answers)

    for run, answer in answers.items():
        run.refresh_from_db()
        assert run.status == ("cancelled" if answer else "completed"), run.error
        ends = [e.kind for e in run.events() if e.kind in {"completed", "cancelled", "failed"}]
        assert ends == [run.status]
        assert run.attempts.count() <= 1
    assert set(answers.values()) == {True, False}, "every cancel came too early or too late"
    audit(site, atomic=atomic)
    completed = sum(1 for run in atomic if not answers[run])
    assert Counter.objects.get().value == completed
    figures.add("A19", runs=len(answers), effects=completed, lost=0, duplicated=0)


def test_what_is_cancelled_while_it_waits_never_starts(site: Site) -> None:
    # B8; faults A19
    runs = [jobs.noted.submit() for _ in range(10)]
    assert [run.cancel() for run in runs] == [True] * 10
    assert [run.cancel() for run in runs] == [False] * 10
    node = site.start("--no-dispatch", "--drain", wait=False)
    assert node.process.wait(60) == 0, site.report()
    assert site.lines() == []
    assert {run.status for run in Run.objects.all()} == {"cancelled"}


def test_a_running_handler_notices_its_cancellation_while_redis_is_down(
    site: Site, use_redis: Callable[[Site, str], None], own_redis: Server
) -> None:
    # B8, B11; W18, faults A19
    use_redis(site, own_redis.url)
    site.start("--no-dispatch", "--processes=1")
    run = jobs.wait.submit()
    site.wait_line("start wait")
    own_redis.kill()
    assert run.cancel()
    began = time.monotonic()
    site.wait_line("cancelled wait", str(run.id))
    took, heartbeat = time.monotonic() - began, float(QUICK["SYNC_SCHEDULER_NODE_HEARTBEAT"])
    figures.add("A19 without Redis", runs=1, note=f"a running handler knows after {took:.2f} s")
    assert took <= bound(2 * heartbeat, beside_others=20)
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert [a.outcome for a in run.attempts.all()] == ["cancelled"]


def test_a_cancelled_handler_keeps_its_place_until_it_has_ended(site: Site, tmp_path: Path) -> None:
    # B8, B15
    node = site.start("--no-dispatch", "--processes=1", "--threads=4")
    ends = [tmp_path / str(number) for number in range(5)]
    runs = [jobs.limited.submit(path=str(end)) for end in ends]
    site.wait(lambda: len(site.lines()) == 2, "two have started")
    site.wait(lambda: Run.objects.filter(waiting_for__isnull=False).count() == 3, "three wait")
    assert runs[0].cancel()
    # Whatever the cancel had let go would have been taken before this one.
    site.wait_ended([jobs.noop.submit()])
    assert len(site.lines()) == 2
    ends[0].touch()
    site.wait_line("end limited", str(runs[0].id))
    site.wait_line("start limited", str(runs[2].id))

    assert runs[1].cancel() and runs[2].cancel()
    node.kill()
    site.start("--processes=1", "--threads=4")
    site.wait_line("start limited", str(runs[3].id))
    site.wait_line("start limited", str(runs[4].id))
    for end in ends:
        end.touch()
    site.wait_ended(runs)
    statuses = [run.status for run in Run.objects.filter(job="tests.limited").order_by("id")]
    assert statuses == ["cancelled", "cancelled", "cancelled", "completed", "completed"]


def test_an_atomic_handler_that_was_cancelled_gives_up_its_place(
    site: Site, tmp_path: Path
) -> None:
    # A11, B8, B16: its worker says only that it was no longer its own
    if connection.vendor == "sqlite":
        pytest.skip("an atomic handler that writes keeps everybody else from writing")
    site.start("--no-dispatch", "--processes=1", "--threads=2")
    end = tmp_path / "end"
    schedule = Schedule.objects.register(
        "alone",
        job=jobs.atomic_wait,
        rule=cron("0 0 1 1 *", tz="UTC"),
        input={"name": "alone", "path": str(end)},
    ).schedule
    first, second = schedule.trigger_now(), schedule.trigger_now()
    site.wait_line("start atomic_wait", str(first.id))
    assert first.cancel()
    site.wait_ended([jobs.noop.submit()])
    assert len(site.lines()) == 1
    end.touch()
    site.wait_ended([second])
    assert Run.objects.get(pk=second.pk).status == "completed"
    assert Effect.objects.get().run == str(second.pk)
