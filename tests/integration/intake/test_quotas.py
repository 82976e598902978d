"""Quotas of queues: a flood is refused at the door, and nothing else is."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import time

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

import sync_scheduler
from sync_scheduler import cron, signals
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import QueueFull, SchedulerError
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import claims, waiting
from tests.integration.api.rows import a_run, a_schedule
from tests.integration.commands.shell import PYTHON, environment, failing
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

SENTENCE = (
    "Queue 'default' has no room for one more: at most 3 Runs (QUEUE_QUOTAS) may wait in it;"
    " submit again when some have started."
)


@pytest.fixture(autouse=True)
def _three_may_wait(settings: Settings) -> None:
    settings.SYNC_SCHEDULER = {
        "QUEUE_QUOTAS": {"default": 3},
        "ADMIN_JOBS": ["tests.*"],
        "API_TOKENS": ["token"],
    }


def fill() -> list[Run]:
    return jobs.noop.submit_many([{}] * 3)


def test_a_submit_beyond_the_quota_is_refused_and_stores_nothing() -> None:  # S25
    for _ in range(3):
        jobs.noop.submit()
    for refused in (
        lambda: jobs.noop.submit(),
        lambda: jobs.noop.submit_many([{}]),
        lambda: jobs.noop.using(key="new").submit(),
        lambda: jobs.noop.using(delay=3600).submit(),
        async_to_sync(jobs.noop.asubmit),
    ):
        with pytest.raises(QueueFull) as caught:
            refused()
        assert str(caught.value) == SENTENCE
    assert Run.objects.count() == 3
    assert issubclass(QueueFull, SchedulerError)
    assert "QueueFull" not in sync_scheduler.__all__


def test_many_are_refused_together_or_not_at_all() -> None:  # S25
    jobs.noop.submit()
    with pytest.raises(QueueFull, match="no room for 3 more"):
        jobs.noop.submit_many([{}] * 3)
    with pytest.raises(QueueFull, match="no room for 4 more"):
        jobs.noop.submit_many([{}] * 4)
    assert Run.objects.count() == 1
    assert len(jobs.noop.submit_many([{}] * 2)) == 2


def test_only_what_has_not_started_counts() -> None:  # S25
    runs = fill()
    claims.claim([runs[0].id], "node", ["tests.noop"])
    runs[1].cancel()
    jobs.noop.submit_many([{}] * 2)
    with pytest.raises(QueueFull):
        jobs.noop.submit()


def test_what_waits_for_a_limit_or_for_its_schedule_counts_too() -> None:  # S25, B15
    runs = fill()
    Run.objects.filter(id=runs[0].id).update(waiting_for=waiting.gate_name("g"))
    Run.objects.filter(id=runs[1].id).update(waiting_for=waiting.guard_name(1))
    with pytest.raises(QueueFull):
        jobs.noop.submit()


def test_other_queues_have_their_own_room(settings: Settings) -> None:  # S25
    fill()
    jobs.noop.using(queue="other").submit_many([{}] * 10)
    settings.SYNC_SCHEDULER = {"QUEUE_QUOTAS": {"default": 5, "*": 2}}
    jobs.noop.submit_many([{}] * 2)
    jobs.noop.using(queue="third").submit_many([{}] * 2)
    for queue in ("default", "other", "third"):
        with pytest.raises(QueueFull, match=repr(queue)):
            jobs.noop.using(queue=queue).submit()


def test_a_key_that_exists_gives_its_run_also_when_the_queue_is_full() -> None:  # S25, B5
    first = jobs.noop.using(key="k").submit()
    jobs.noop.submit_many([{}] * 2)
    assert jobs.noop.using(key="k").submit().id == first.id
    schedule = a_schedule("hourly")
    Run.objects.all().delete()
    triggered = schedule.trigger_now(key="k")
    jobs.noop.submit_many([{}] * 2)
    assert schedule.trigger_now(key="k").id == triggered.id


def test_slots_and_backfills_of_schedules_are_never_refused() -> None:  # S25, A1
    fill()
    due = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)
    schedule = Schedule.objects.register(
        "hourly", job=jobs.noop, rule=cron("0 * * * *", tz="UTC")
    ).schedule
    Schedule.objects.update(next_run_at=due)
    assert tick(lead(), due + dt.timedelta(seconds=5)).dispatched == 1
    assert Run.objects.filter(trigger="slot").count() == 1
    end = dt.datetime(2020, 1, 1, 3, 30, tzinfo=dt.UTC)
    assert len(schedule.backfill(end - dt.timedelta(hours=3), end)) == 3


def test_a_queue_without_a_quota_is_not_asked(settings: Settings) -> None:  # S25
    with CaptureQueriesContext(connection) as asked:
        jobs.noop.using(queue="other").submit()
    assert len(asked) == 1


# ---------------------------------------------------------------------------- people


def test_a_retry_and_a_trigger_are_refused_with_the_reason() -> None:  # S25, A9
    failed = a_run(status="failed")
    schedule = a_schedule("hourly")
    fill()
    reasons: list[str] = []

    def receive(reason: str, **_: object) -> None:
        reasons.append(reason)

    signals.trigger_rejected.connect(receive)
    try:
        with pytest.raises(QueueFull):
            schedule.trigger_now()
    finally:
        signals.trigger_rejected.disconnect(receive)
    assert reasons == [SENTENCE]
    with pytest.raises(QueueFull):
        failed.retry()
    assert Run.objects.count() == 4


def test_http_answers_429_with_the_sentence() -> None:  # S25
    failed = a_run(status="failed")
    a_schedule("hourly")
    fill()
    client = Client(headers={"Authorization": "Bearer token"})
    with override_settings(ROOT_URLCONF="tests.integration.api.urls"):
        for address in ("schedules/hourly/trigger", f"runs/{failed.id}/retry"):
            response = client.post(f"/scheduler/v1/{address}")
            assert response.status_code == 429
            assert response.json() == {"error": SENTENCE}
            assert response.headers["Retry-After"]


def test_the_command_says_the_sentence() -> None:  # S25
    failed = a_run(status="failed")
    a_schedule("hourly")
    fill()
    assert failing("trigger", "hourly") == ("", SENTENCE)
    assert failing("retry", str(failed.id)) == ("", SENTENCE)


def test_the_admin_shows_the_sentence() -> None:  # S25
    schedule, failed = a_schedule("hourly"), a_run(status="failed")
    fill()
    client = Client()
    client.force_login(User.objects.create_superuser("ops"))
    shown = SENTENCE.replace("'", "&#x27;")
    for name, pk, form in (
        ("schedule_trigger", schedule.pk, {"reason": "why", "overlap": "wait"}),
        ("run_retry", failed.id, {}),
    ):
        address = reverse(f"admin:sync_scheduler_{name}", args=[pk])
        page = client.get(address)
        token = page.context["form"]["token"].value()
        answer = client.post(address, {**form, "token": token}, follow=True)
        assert shown in answer.content.decode()
    assert Run.objects.count() == 4


# ---------------------------------------------------------------------------- a real flood


def test_a_job_that_submits_two_of_itself_stops_at_the_quota(settings: Settings) -> None:  # S25
    settings.SYNC_SCHEDULER = {}
    quota, workers = 20, 2
    jobs.bomb.using(queue="bombs").submit()
    chosen = {
        "SYNC_SCHEDULER_QUEUE_QUOTAS": f"bombs={quota}",
        "SYNC_SCHEDULER_MAX_CHAIN_DEPTH": "12",
    }
    command = [PYTHON, "-m", "django", "runscheduler", "--no-dispatch", "--drain"]
    worker = subprocess.Popen(
        [*command, "--processes=1", f"--threads={workers}"],
        env=environment() | chosen,
        stderr=subprocess.DEVNULL,
    )
    try:
        others = jobs.noop.submit_many([{}] * 50)
        most, deadline = 0, time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < deadline:
            waiting_now = Run.objects.filter(queue="bombs", status="submitted").count()
            most = max(most, waiting_now)
            time.sleep(0.02)
        assert worker.wait(1) == os.EX_OK
    finally:
        worker.kill()
        worker.wait()
    # Threads that submit at the same moment do not see each other.
    assert most <= quota + workers
    # Without a quota there would be 8,191 of them.
    bombs = Run.objects.filter(queue="bombs")
    assert bombs.count() < 1000
    refused = bombs.filter(status="failed", error__startswith="QueueFull: Queue 'bombs'")
    assert refused.exists()
    assert {Run.objects.get(id=run.id).status for run in others} == {"completed"}
