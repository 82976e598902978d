"""Schedules that are declared in code: applied again and again, by any number of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sync_scheduler import clock, cron, job
from sync_scheduler.intake import declared
from sync_scheduler.jobs import registry
from sync_scheduler.models import Node, Schedule

pytestmark = pytest.mark.django_db

NAME = "tests.declared"
Declare = Callable[..., None]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declare the job with this rule, as the next version of the code would."""

    def declare(rule: Any) -> None:
        registry.remove(NAME)

        @job(name=NAME, schedule=rule)
        def declared_job(region: str = "eu") -> None: ...

    yield declare
    registry.remove(NAME)


def apply(**options: Any) -> declared.Applied:
    return declared.apply(**options)


def row() -> Schedule:
    return Schedule.objects.get(job=NAME)


def test_a_declared_schedule_becomes_a_row_once(declare: Declare) -> None:  # A16, C5
    declare(cron("0 6 * * *", tz="Europe/Berlin", name="daily", input={"region": "us"}))
    first, again = apply(), apply()

    assert "daily" in first.created
    assert (again.created, again.updated) == ((), ())
    assert (row().name, row().source, row().input) == ("daily", "code", {"region": "us"})


def test_the_rule_follows_the_code(declare: Declare) -> None:  # A3
    declare(cron("0 6 * * *", tz="UTC", name="daily"))
    apply()
    edited = row()
    edited.expression = "0 9 * * *"
    edited.save()

    assert apply().updated == ("daily",)
    assert row().expression == "0 6 * * *"


def test_what_an_operator_changed_survives_a_deploy_and_is_seen_as_drift(
    declare: Declare,
) -> None:  # A3
    declare(cron("0 6 * * *", tz="UTC", name="daily", misfire="skip"))
    apply()
    edited = row()
    edited.misfire, edited.enabled = "catch_up_one", False
    edited.save()
    edited.pause(note="audit")
    apply()

    kept = row()
    assert (kept.misfire, kept.enabled, kept.is_paused) == ("catch_up_one", False, True)
    assert declared.drift(kept) == {"misfire": ("skip", "catch_up_one"), "enabled": (True, False)}


def test_what_has_changed_in_the_code_wins(declare: Declare) -> None:  # A3
    declare(cron("0 6 * * *", tz="UTC", name="daily", misfire="skip"))
    apply()
    edited = row()
    edited.misfire = "catch_up_one"
    edited.save()
    declare(cron("0 6 * * *", tz="UTC", name="daily", misfire="catch_up_all"))
    apply()

    assert row().misfire == "catch_up_all"
    assert declared.drift(row()) == {}


def test_what_vanished_from_the_code_is_disabled_with_a_note_and_comes_back(
    declare: Declare,
) -> None:  # A16
    rule = cron("0 6 * * *", tz="UTC", name="daily")
    declare(rule)
    apply()
    registry.remove(NAME)

    assert apply(is_migrating=True).disabled == ("daily",)
    assert (row().enabled, row().next_run_at) == (False, None)
    assert "no longer declared" in row().note
    declare(rule)
    apply()
    assert row().enabled
    assert row().next_run_at is not None


def test_a_start_with_old_code_leaves_what_other_nodes_know(declare: Declare) -> None:  # C2, C5
    declare(cron("0 6 * * *", tz="UTC", name="daily"))
    apply()
    registry.remove(NAME)
    now = clock.now()
    Node.objects.create(name="new", host="h", pid=1, jobs=[NAME], started_at=now, heartbeat_at=now)

    assert apply().disabled == ()
    Node.objects.update(stopped_at=now)
    assert apply().disabled == ("daily",)


def test_one_faulty_declaration_costs_only_itself(declare: Declare) -> None:  # A14
    declare(
        [
            cron("0 6 * * *", tz="UTC", name="bad", input={"no_such": 1}),
            cron("0 6 * * *", tz="UTC", name="good"),
        ]
    )
    done = apply()

    assert "good" in done.created
    assert len(done.faults) == 1
    assert "'bad'" in done.faults[0]
