"""Handlers that leave the process behind them in another state than they found it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from tests.faults.harness import Site
from tests.faults.worker.test_handlers import done
from tests.testapp import jobs
from tests.testapp.models import Effect


@pytest.mark.parametrize("how", ["stop", "exit"])
def test_a_handler_that_stops_the_event_loop_stops_nobody_else(site: Site, how: str) -> None:
    # B1
    site.start("--no-dispatch", "--processes=1")
    neighbour = jobs.wait_async.submit(seconds=0.5)
    site.wait_line("start wait_async", str(neighbour.id))
    run = done(site, jobs.async_break_loop.submit(how=how))
    assert run.status == ("completed" if how == "stop" else "failed")
    assert done(site, neighbour).status == "completed"
    assert done(site, jobs.wait_async.submit(seconds=0)).status == "completed"


@pytest.mark.parametrize("how", ["atomic", "autocommit", "begin"])
def test_a_transaction_that_a_handler_leaves_open_is_closed_behind_it(site: Site, how: str) -> None:
    # B1, B11: on SQLite it would keep everybody else from writing, the worker first of all
    if how == "begin" and connection.vendor == "mysql":
        pytest.skip("MySQL and MariaDB do not tell their client of such a transaction")
    site.start("--no-dispatch", "--processes=1", "--threads=1")
    assert done(site, jobs.leave_open.submit(name="lost", how=how)).status == "completed"
    assert done(site, jobs.mark.submit(name="kept")).status == "completed"
    assert [effect.name for effect in Effect.objects.all()] == ["kept"]


def test_a_project_that_limits_the_time_of_sockets_has_workers_that_wait(site: Site) -> None:
    # B1, B9: a child that hears nothing for a while is not to end, and its Runs with it
    site.start(
        "--no-dispatch",
        "--processes=1",
        DJANGO_SETTINGS_MODULE="tests.faults.worker.hasty_settings",
    )
    for handler in (jobs.wait, jobs.wait_async):
        run = done(site, handler.submit(seconds=1))
        assert (run.status, [a.outcome for a in run.attempts.all()]) == ("completed", ["completed"])


def test_what_a_handler_prints_is_seen_at_once_and_once(site: Site) -> None:
    # D3
    node = site.start("--no-dispatch", "--processes=2", PYTHONUNBUFFERED="")
    done(site, jobs.say.submit(text="the word"))
    site.wait(lambda: "the word" in node.output(), "the word is said")
    node.stop()
    assert node.output().count("the word") == 1


def test_a_handlers_language_and_time_zone_end_with_it(site: Site) -> None:
    # B1
    site.start("--no-dispatch", "--processes=1", "--threads=1")
    first = done(site, jobs.speak.submit())
    assert done(site, jobs.speak.submit()).result == first.result == ["en-us", "UTC"]


def test_a_handler_that_closes_what_its_process_lives_by_is_dead_after_three_crashes(
    site: Site,
) -> None:
    # B9; W13
    site.start("--no-dispatch", "--processes=1", "--threads=2")
    run = done(site, jobs.close_descriptors.submit())
    assert (run.status, run.reason) == ("failed", "crashed")
    assert site.starts(run) == 3
    assert done(site, jobs.noop.submit()).status == "completed"


def test_a_child_that_retires_keeps_nobody_waiting_while_its_last_handler_runs(
    site: Site, tmp_path: Path
) -> None:
    # B1
    end = tmp_path / "end"
    site.start("--no-dispatch", "--processes=1", "--threads=2", SYNC_SCHEDULER_RECYCLE_RUNS="1")
    long = jobs.until_file.submit(path=str(end))
    site.wait_line("start until_file", str(long.id))
    for _ in range(4):
        assert done(site, jobs.noop.submit()).status == "completed"
    end.touch()
    assert done(site, long).attempt == 1
