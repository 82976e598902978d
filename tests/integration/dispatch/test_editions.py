"""Nodes that read different editions of the time zone database."""

from __future__ import annotations

import datetime as dt
import logging

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.dispatch import mend
from sync_scheduler.models import Node, Schedule
from sync_scheduler.store import editions, nodes
from sync_scheduler.timing import zones
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

DAY = dt.timedelta(days=1)


def a_node(name: str, tzdata: str) -> None:
    nodes.enter(
        nodes.NodeFacts(
            name=name, host="h", pid=1, roles="dispatch", version="1", tzdata=tzdata,
            queues=(), jobs=(), slots=0,
        )
    )  # fmt: skip


def wrong_schedules(number: int) -> None:
    """So many in a time zone, and one that no edition moves; none knows its next run."""
    far = clock.now() + 400 * DAY
    for n in range(number):
        Schedule.objects.register(
            f"zoned-{n}", job=jobs.noop, rule=cron("0 12 * * *", tz="Europe/Berlin")
        )
    Schedule.objects.update(next_run_at=far)


def still_wrong() -> int:
    return Schedule.objects.filter(next_run_at__gt=clock.now() + 300 * DAY).count()


@pytest.mark.parametrize(("before", "left"), [("same", 3), ("older", 0), ("unknown", 3)])
def test_a_leader_with_another_edition_than_the_one_before_recomputes_all_at_once(
    before: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # L10
    monkeypatch.setattr(mend, "_PAGE", 2)
    wrong_schedules(5)
    if before != "unknown":
        a_node("first", zones.tzdata_version() if before == "same" else "1999a")
    lead("first")
    mender, term = mend.Mender(), lead("second")
    assert mender.mend(clock.now(), term.epoch) == 5 - left
    assert still_wrong() == left
    mender.mend(clock.now(), term.epoch)
    assert still_wrong() == max(0, left - 2)


def test_the_next_run_lies_behind_the_last_slot_also_if_clocks_were_put_back() -> None:
    # L10, A7
    schedule = Schedule.objects.register(
        "noon", job=jobs.noop, rule=cron("0 12 * * *", tz="Europe/Berlin")
    ).schedule
    upcoming = schedule.preview(3)
    if upcoming[0] - clock.now() < dt.timedelta(seconds=30):
        upcoming = upcoming[1:]
    Schedule.objects.update(last_slot=upcoming[0], next_run_at=clock.now() + 400 * DAY)
    mend.Mender().mend(clock.now(), lead().epoch)
    schedule.refresh_from_db()
    assert schedule.next_run_at == upcoming[1]


def test_nodes_that_differ_are_told_of_once_and_named(caplog: pytest.LogCaptureFixture) -> None:
    # L10
    a_node("new", "2026b")
    a_node("old", "2020a")
    a_node("silent", "")
    Node.objects.filter(name="silent").update(heartbeat_at=clock.now() - DAY)
    assert editions.living() == {"2026b": ("new",), "2020a": ("old",)}
    said = editions.differing(Node.objects.exclude(name="silent"))
    assert list(said) == ["old"]
    assert "2020a" in said["old"]
    assert "2026b" in said["old"]
    mender, term = mend.Mender(), lead()
    with caplog.at_level(logging.WARNING, logger=mend.__name__):
        for _ in range(3):
            mender.mend(clock.now(), term.epoch)
    told = [record for record in caplog.records if "different editions" in record.getMessage()]
    assert len(told) == 1

    caplog.clear()
    nodes.leave("old")
    mender.mend(clock.now(), term.epoch)
    assert editions.differing(Node.objects.filter(stopped_at__isnull=True, name="new")) == {}
    assert caplog.records == []
