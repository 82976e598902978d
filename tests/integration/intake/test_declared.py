"""Schedules that are declared in code: applied again and again, by any number of nodes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sync_scheduler import clock, cron, job, signals
from sync_scheduler.intake import declared
from sync_scheduler.jobs import registry
from sync_scheduler.models import Node, Schedule

pytestmark = pytest.mark.django_db

NAME = "tests.declared"
Declare = Callable[..., None]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declare the job with this rule, as the next version of the code would."""

    names = {NAME}

    def declare(rule: Any, name: str = NAME, aliases: tuple[str, ...] = ()) -> None:
        for known in names:
            registry.remove(known)
        names.add(name)

        @job(name=name, aliases=aliases, schedule=rule)
        def declared_job(region: str = "eu") -> None: ...

    yield declare
    for name in names:
        registry.remove(name)


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


def test_that_one_has_vanished_is_told_as_an_update(
    declare: Declare, django_capture_on_commit_callbacks: Any
) -> None:  # A9
    declare(cron("0 6 * * *", tz="UTC", name="daily"))
    apply()
    registry.remove(NAME)
    told: list[tuple[str, bool]] = []

    def receiver(schedule: Schedule, updated: bool, **_: object) -> None:
        told.append((schedule.name, updated and not schedule.enabled))

    signals.schedule_registered.connect(receiver)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            apply(is_migrating=True)
    finally:
        signals.schedule_registered.disconnect(receiver)

    assert told == [("daily", True)]


def test_a_schedule_that_has_its_jobs_name_is_renamed_with_the_job(
    declare: Declare,
) -> None:  # A3, A16
    declare(cron("0 6 * * *", tz="UTC"))
    apply()
    before = row()
    before.pause(note="audit")
    declare(cron("0 6 * * *", tz="UTC"), name="tests.renamed_job", aliases=(NAME,))
    done = apply()

    after = Schedule.objects.get(job="tests.renamed_job")
    assert (after.pk, after.name, after.is_paused) == (before.pk, "tests.renamed_job", True)
    assert after.next_run_at == before.next_run_at
    assert (done.created, done.updated) == ((), ("tests.renamed_job",))
    assert not Schedule.objects.filter(name=NAME).exists()
    assert apply().updated == ()


def test_a_renamed_job_takes_no_schedule_that_is_not_its_own(declare: Declare) -> None:  # A16
    declare(cron("0 6 * * *", tz="UTC"))
    apply()
    Schedule.objects.update(source="api")
    declare(cron("0 6 * * *", tz="UTC"), name="tests.renamed_job", aliases=(NAME,))
    apply()

    assert set(Schedule.objects.values_list("name", flat=True)) >= {NAME, "tests.renamed_job"}


def test_a_schedule_that_vanished_while_its_job_stayed_is_disabled_at_the_next_start(
    declare: Declare,
) -> None:  # A16
    declare([cron("0 6 * * *", tz="UTC", name="kept"), cron("0 7 * * *", tz="UTC", name="gone")])
    apply()
    declare(cron("0 6 * * *", tz="UTC", name="kept"))
    now = clock.now()
    Node.objects.create(name="other", host="h", pid=1, jobs=[], started_at=now, heartbeat_at=now)

    assert apply().disabled == ()  # it may run newer code, which declares it
    Node.objects.update(heartbeat_at=now - dt.timedelta(hours=1))
    assert apply().disabled == ("gone",)


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
