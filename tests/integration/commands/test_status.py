"""`scheduler status` says who leads, who lives, what ended, runs, waits and comes next."""

from __future__ import annotations

import datetime as dt

import pytest
from django.test import override_settings

from sync_scheduler import clock, cron, once
from sync_scheduler.models import Run, Schedule
from tests.integration.api.rows import HOUR, a_leader, a_node, a_run, a_schedule
from tests.integration.commands.shell import scheduler, scheduler_json

pytestmark = pytest.mark.django_db


def test_an_empty_scheduler_has_the_whole_shape() -> None:
    # D2
    assert scheduler_json("status") == {
        "leader": None,
        "nodes": [],
        "last_24h": {"completed": 0, "failed": 0, "cancelled": 0, "skipped": 0},
        "running": 0,
        "waiting": {"default": 0},
        "next": [],
    }


def test_the_leader_is_named_while_its_lease_holds() -> None:
    # D2, A2
    a_leader("n1", epoch=12)
    leader = scheduler_json("status")["leader"]
    assert set(leader) == {"node", "epoch", "since"}
    assert (leader["node"], leader["epoch"]) == ("n1", 12)
    since = dt.datetime.fromisoformat(leader["since"])
    assert since.utcoffset() == dt.timedelta()


def test_a_leader_whose_lease_has_run_out_is_no_leader() -> None:
    # D2, A2
    a_leader("n1", lease_seconds=-0.5)
    assert scheduler_json("status")["leader"] is None


def test_only_living_nodes_are_listed() -> None:
    # D2, C1
    a_node("alive", running=3, queues=["mail"])
    a_node("silent", silent_seconds=31)
    a_node("stopped", stopped_at=clock.now())
    nodes = scheduler_json("status")["nodes"]
    assert [node["name"] for node in nodes] == ["alive"]
    assert set(nodes[0]) == {"name", "started_at", "heartbeat_at", "running", "queues"}
    assert (nodes[0]["running"], nodes[0]["queues"]) == (3, ["mail"])


def test_what_ended_within_a_day_is_counted_by_outcome() -> None:
    # D2: a Run that timed out has failed
    for status in ("completed", "completed", "failed", "timed_out", "cancelled", "skipped"):
        a_run(status=status)
    a_run(status="completed", finished_at=clock.now() - 25 * HOUR)
    assert scheduler_json("status")["last_24h"] == {
        "completed": 2,
        "failed": 2,
        "cancelled": 1,
        "skipped": 1,
    }


def test_waiting_counts_what_is_due_and_has_not_started_by_queue() -> None:
    # D2
    a_run()
    a_run(queue="mail")
    a_run(queue="mail", waiting_for="guard:1")
    a_run(queue="mail", run_at=clock.now() + HOUR)
    a_run(status="running")
    found = scheduler_json("status")
    assert found["waiting"] == {"default": 1, "mail": 2}
    assert found["running"] == 1


def test_next_lists_what_will_really_be_dispatched_soonest_first() -> None:
    # D2
    now = clock.now().replace(microsecond=0)
    a_schedule("second", rule=once(now + 2 * HOUR))
    a_schedule("first", rule=once(now + HOUR))
    a_schedule("off", rule=once(now + HOUR), enabled=False)
    a_schedule("paused", rule=once(now + HOUR)).pause(note="maintenance")
    a_schedule("paused shortly", rule=once(now + 3 * HOUR)).pause(until=now + HOUR)
    following = scheduler_json("status")["next"]
    assert [one["schedule"] for one in following] == ["first", "second", "paused shortly"]
    assert following[0]["at"] == (now + HOUR).isoformat().replace("+00:00", "Z")


def test_another_installation_in_the_same_database_is_not_seen() -> None:
    # D2, C3
    with override_settings(SYNC_SCHEDULER={"NAMESPACE": "other"}):
        a_leader("foreign")
        a_node("foreign")
        a_run()
        a_run(status="completed")
        a_schedule("foreign")
    found = scheduler_json("status")
    assert found["leader"] is None
    assert found["nodes"] == found["next"] == []
    assert found["waiting"] == {"default": 0}
    assert found["last_24h"]["completed"] == 0


def test_the_table_says_the_same_in_words() -> None:
    # D3
    a_leader("web-1:4711", epoch=12)
    a_node("web-1:4711", queues=["mail"])
    a_run(status="completed")
    a_schedule("invoices-daily", rule=cron("0 6 * * *"))
    text = scheduler("status")
    assert "web-1:4711, epoch 12" in text
    assert "1 completed, 0 failed" in text
    assert "invoices-daily" in text
    assert " UTC (in " in text


def test_that_nobody_leads_is_said_with_what_to_do() -> None:
    # D3
    text = scheduler("status")
    assert "nobody" in text
    assert "runscheduler" in text
    assert "No node is alive." in text


def test_an_overdue_schedule_is_called_so() -> None:
    # D3
    schedule = a_schedule("late")
    Schedule.objects.filter(pk=schedule.pk).update(next_run_at=clock.now() - HOUR)
    assert "overdue" in scheduler("status")


def test_prune_removes_what_was_kept_long_enough() -> None:
    # B10, D3
    a_run(status="completed", finished_at=clock.now() - 8 * 24 * HOUR)
    kept = a_run(status="completed")
    assert scheduler_json("prune") == {"pruned": 1}
    assert list(Run.objects.values_list("id", flat=True)) == [kept.id]
