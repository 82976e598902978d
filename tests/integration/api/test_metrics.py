"""Numbers for Prometheus."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from sync_scheduler import clock, job
from sync_scheduler.api import exposition
from sync_scheduler.jobs import registry
from sync_scheduler.models import Run, Schedule
from sync_scheduler.models.identity import uuid7
from tests.integration.api.rows import HOUR, a_leader, a_node, a_run, a_schedule

pytestmark = pytest.mark.django_db

SAMPLE = re.compile(r'(sync_scheduler_\w+)(\{\w+="(?:[^"\\\n]|\\.)*"(?:,\w+="[^"\n]*")*\})? (\S+)')


def samples(client: Client) -> dict[str, float]:
    response = client.get("/scheduler/metrics")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=0.0.4")
    found: dict[str, float] = {}
    described: set[str] = set()
    for line in response.content.decode().splitlines():
        if line.startswith("# "):
            described.add(line.split()[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match[1] in described
        assert match[1] + (match[2] or "") not in found
        found[match[1] + (match[2] or "")] = float(match[3])
    return found


def test_the_numbers_are_those_of_the_rows(token: Client) -> None:
    # A9, D2
    a_leader(epoch=12)
    a_node("n1")
    a_node("n2", silent_seconds=99)
    a_run("tests.noop", "completed")
    a_run("tests.noop", "timed_out")
    a_run("tests.add", "running")
    a_run("tests.add", run_at=clock.now() - HOUR)
    a_schedule("good")
    a_schedule("off", enabled=False)
    a_schedule("resting").pause()
    late = a_schedule("late")
    Schedule.objects.filter(pk=late.pk).update(next_run_at=clock.now() - HOUR, error="boom")
    found = samples(token)
    assert found["sync_scheduler_leader"] == 1
    assert found["sync_scheduler_epoch"] == 12
    assert found["sync_scheduler_nodes"] == 1
    assert found['sync_scheduler_runs_last_24h{job="tests.noop",status="completed"}'] == 1
    assert found['sync_scheduler_runs_last_24h{job="tests.noop",status="timed_out"}'] == 1
    assert found['sync_scheduler_runs_running{job="tests.add"}'] == 1
    assert found['sync_scheduler_runs_running{job="tests.noop"}'] == 0
    assert found['sync_scheduler_runs_waiting{queue="default"}'] == 1
    assert 3590 < found["sync_scheduler_oldest_waiting_seconds"] < 3700
    assert found['sync_scheduler_schedules{state="enabled"}'] == 3
    assert found['sync_scheduler_schedules{state="disabled"}'] == 1
    assert found['sync_scheduler_schedules{state="paused"}'] == 1
    assert found['sync_scheduler_schedules{state="overdue"}'] == 1
    assert found['sync_scheduler_schedules{state="error"}'] == 1
    assert found["sync_scheduler_dead_letters_open"] == 0


def test_nobody_leading_is_a_number_too(token: Client) -> None:
    # A9: a dead scheduler must not look like a quiet day
    assert samples(token)["sync_scheduler_leader"] == 0


def test_ten_thousand_unknown_names_do_not_make_a_single_new_series(token: Client) -> None:
    # S17
    known = len(samples(token))
    now = clock.now()
    times = {"run_at": now, "submitted_at": now}
    ended = {**times, "status": "completed", "finished_at": now}
    Run.objects.bulk_create(
        (Run(id=uuid7(), job=f"made.up.{n}", **ended) for n in range(9_000)), batch_size=500
    )
    Run.objects.bulk_create(
        (Run(id=uuid7(), job=f"made.up.{n}", queue=f"q{n}", **times) for n in range(1_000)),
        batch_size=500,
    )
    exposition._kept = (0.0, "")
    found = samples(token)
    assert found['sync_scheduler_runs_last_24h{job="other",status="completed"}'] == 9_000
    assert found['sync_scheduler_runs_waiting{queue="other"}'] == 1_000
    assert len(found) == known + 2


def test_a_name_cannot_break_out_of_its_label(token: Client) -> None:
    # S17, S21
    @job(name='evil"} 1\\')
    def evil() -> None: ...

    try:
        a_run('evil"} 1\\', "running")
        assert 'job="evil\\"} 1\\\\"' in token.get("/scheduler/metrics").content.decode()
        samples(token)
    finally:
        registry.remove('evil"} 1\\')


def test_secrets_are_not_in_the_metrics(token: Client) -> None:
    # S11
    a_run("tests.echo", "failed", input={"secret": "canary-4711"}, error="canary-4711")
    assert "canary-4711" not in token.get("/scheduler/metrics").content.decode()
