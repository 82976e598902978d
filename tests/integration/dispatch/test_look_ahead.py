"""Slots that were decided about a moment before their time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from pytest_django import Settings

from sync_scheduler import clock, every
from sync_scheduler.dispatch.tick import look_ahead, tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import schedules
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = dt.timedelta(seconds=1)


def soon(number: int = 1) -> dt.datetime:
    """So many schedules that are due at the same instant, in a moment."""
    at = clock.now().replace(microsecond=0) + 5 * SECOND
    for n in range(number):
        Schedule.objects.register(f"s{n}", job=jobs.noop, rule=every(hours=1, start=at))
    assert set(Schedule.objects.values_list("next_run_at", flat=True)) == {at}
    return at


def statuses() -> list[str]:
    return list(Run.objects.order_by("id").values_list("status", flat=True))


def test_what_was_decided_ahead_is_only_written(monkeypatch: pytest.MonkeyPatch) -> None:
    # A1
    term, at = lead(), soon(3)
    ahead = look_ahead(at)

    def nobody_asks(*given: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(schedules, "due", nobody_asks)
    done = tick(term, at, ahead=ahead)
    assert (done.due, done.dispatched) == (3, 3)
    assert set(Run.objects.values_list("slot", flat=True)) == {at}
    assert set(Schedule.objects.values_list("last_slot", flat=True)) == {at}


def test_nothing_is_written_before_its_time() -> None:
    # A1, A13
    term, at = lead(), soon()
    ahead = look_ahead(at)
    assert tick(term, at - SECOND / 100, ahead=ahead).due == 0
    assert not Run.objects.exists()


def test_nothing_due_is_nothing_decided() -> None:
    # A1
    at = soon()
    assert look_ahead(at - SECOND) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.pause(note="holiday"), ["skipped"]),
        (lambda s: Schedule.objects.unregister(s.name), []),
        (lambda s: Schedule.objects.filter(pk=s.pk).update(enabled=False), []),
        (
            lambda s: Schedule.objects.register(s.name, job=jobs.noop, rule=every(hours=7)),
            [],
        ),
    ],
    ids=["paused", "removed", "disabled", "another rule"],
)
def test_what_has_changed_since_wins_over_what_was_decided(
    change: Callable[[Schedule], object], expected: list[str]
) -> None:
    # A1, A17
    term, at = lead(), soon()
    ahead = look_ahead(at)
    change(Schedule.objects.get())
    tick(term, at, ahead=ahead)
    assert statuses() == expected


def test_a_decision_is_not_written_by_a_term_that_is_over() -> None:
    # A2
    old, at = lead("old"), soon()
    ahead = look_ahead(at)
    lead("new")
    with pytest.raises(LeadershipLost):
        tick(old, at, ahead=ahead)
    assert not Run.objects.exists()


def test_a_decision_that_comes_too_late_is_made_again() -> None:
    # A4
    term, at = lead(), soon()
    ahead = look_ahead(at)
    tick(term, at + dt.timedelta(minutes=30), ahead=ahead)
    assert statuses() == ["skipped"]
    assert Run.objects.get().reason == "misfire"


def test_more_than_a_page_is_all_dispatched(settings: Settings) -> None:
    # A1
    term, at = lead(), soon(5)
    settings.SYNC_SCHEDULER = {"DISPATCH_BATCH": 2}
    assert tick(term, at, ahead=look_ahead(at)).dispatched == 5
    assert statuses() == ["submitted"] * 5
