"""One node's part in deciding who leads."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from sync_scheduler import clock, signals
from sync_scheduler.coordination import client
from sync_scheduler.dispatch.leadership import Leadership
from sync_scheduler.models import Leader, Term
from sync_scheduler.store import leader

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["embedded", "redis", "redis away"])
def _mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """What must hold whether Redis is there, away or not wanted."""
    settings: dict[str, object] = {}
    if request.param == "redis":
        settings["REDIS_URL"] = request.getfixturevalue("redis_url")
    elif request.param == "redis away":
        settings["REDIS_URL"] = "redis://127.0.0.1:1/0"
    with override_settings(SYNC_SCHEDULER=settings):
        yield request.param


@pytest.mark.usefixtures("_mode")
def test_one_of_two_leads() -> None:  # A2
    one, other = Leadership("one"), Leadership("other")
    one.step()
    other.step()

    assert one.term is not None
    assert other.term is None


@pytest.mark.usefixtures("_mode")
def test_a_resigned_lead_is_taken_at_once_under_the_next_epoch() -> None:  # A2, A10
    one, other = Leadership("one"), Leadership("other")
    one.step()
    one.resign("resigned")
    other.step()

    assert one.term is None
    assert other.term is not None
    assert other.term.epoch == 2


@pytest.mark.usefixtures("_mode")
def test_a_leader_steps_down_when_the_row_shows_another_epoch() -> None:  # A2
    one = Leadership("one")
    one.step()
    Leader.objects.update(epoch=9, holder="other")
    one._row_renewal_due = 0.0
    one.step()

    assert one.term is None


@pytest.mark.usefixtures("_mode")
def test_a_term_is_not_trusted_once_its_proof_is_older_than_the_lease() -> None:  # A2
    one = Leadership("one")
    one.step()
    term = one.term
    assert term is not None
    term.extend(clock.boot_seconds() - 0.001)

    assert one.term is None


@pytest.mark.usefixtures("_mode")
def test_a_fault_makes_the_leader_resign_and_keeps_it_from_leading() -> None:  # L4, L19
    fault = ""
    one, other = Leadership("one", lambda: fault), Leadership("other")
    one.step()
    fault = "its dispatch loop makes no progress"
    one.step()

    assert one.term is None
    assert Term.objects.get(epoch=1).reason == fault
    one.step()
    other.step()
    assert (one.term is None, other.term is None) == (True, False)


def test_a_node_whose_clock_is_wrong_refuses_to_lead(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # L7
    seen = leader.look()
    wrong = leader.Standing(
        epoch=seen.epoch,
        holder="",
        expires_at=None,
        database_now=clock.now() - dt.timedelta(seconds=10),
    )
    monkeypatch.setattr(leader, "look", lambda: wrong)
    one = Leadership("one")
    one.step()

    assert one.term is None
    assert Leader.objects.get().epoch == 0
    assert "+10.0 s off" in caplog.text


def test_a_leader_whose_clock_is_set_wrong_gives_the_lead_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # L7, L8
    one, renew = Leadership("one"), leader.renew
    one.step()
    assert Leader.objects.get().holder == "one"

    def renewed(**facts: Any) -> leader.Renewal:
        found = renew(**facts)
        assert found is not None
        ahead = found.database_now + dt.timedelta(seconds=10)
        return dataclasses.replace(found, database_now=ahead)

    monkeypatch.setattr(leader, "renew", renewed)
    one.step()

    assert one.term is None
    assert Leader.objects.get().holder == ""
    assert "its clock is -10.0 s off" in Term.objects.get().reason


def test_a_leader_steps_down_when_redis_shows_another_holder(redis_url: str) -> None:  # A2
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url}):
        one = Leadership("one")
        one.step()
        client.client().set(client.keys().leader, "other", px=5000)
        one.step()

        assert one.term is None


def test_a_follower_in_redis_mode_asks_the_database_nothing(
    redis_url: str, django_assert_num_queries: Any
) -> None:
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url}):
        one, other = Leadership("one"), Leadership("other")
        one.step()
        with django_assert_num_queries(0):
            other.step()


@pytest.mark.parametrize("heartbeat", [0.5, 0.4, 0.3, 0.1])
def test_a_leader_never_lacks_its_proof_between_two_heartbeats(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, heartbeat: float
) -> None:  # A2
    given = {"REDIS_URL": redis_url, "LEADER_LEASE": 1.0, "LEADER_HEARTBEAT": heartbeat}
    seconds = clock.boot_seconds()
    monkeypatch.setattr(clock, "boot_seconds", lambda: seconds)
    with override_settings(SYNC_SCHEDULER=given):
        one = Leadership("one")
        one.step()
        for _ in range(12):
            seconds += heartbeat
            assert one.term is not None
            one.step()


def test_a_wiped_redis_does_not_repeat_an_epoch(redis_url: str) -> None:  # A2, C4
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url}):
        one, other = Leadership("one"), Leadership("other")
        one.step()
        client.client().flushall()
        other.step()
        one.step()

        assert one.term is None
        assert other.term is not None
        assert other.term.epoch == 2


def test_who_begins_and_ends_leading_is_told(monkeypatch: pytest.MonkeyPatch) -> None:  # A9
    told: list[tuple[int, bool, str]] = []

    def receiver(epoch: int, leading: bool, reason: str, **_: object) -> None:
        told.append((epoch, leading, reason))

    signals.leader_changed.connect(receiver)
    try:
        one = Leadership("one")
        one.step()
        one.resign("resigned")
    finally:
        signals.leader_changed.disconnect(receiver)

    assert told == [(1, True, ""), (1, False, "resigned")]
