"""The leader's row: epochs only grow, and only their holder may renew or end a term."""

from __future__ import annotations

import datetime as dt

import pytest

from sync_scheduler.models import Leader, Schedule, Term
from sync_scheduler.store import leader
from sync_scheduler.store.locking import database_now

pytestmark = pytest.mark.django_db


def mint(holder: str, *, is_sure: bool = False, lease: float = 30) -> int | None:
    return leader.mint(
        seen=leader.look(),
        holder=holder,
        lease_seconds=lease,
        is_sure=is_sure,
        because="expired",
    )


def test_the_first_look_makes_the_row() -> None:  # C5
    seen = leader.look()

    assert (seen.epoch, seen.holder, seen.is_vacant) == (0, "", True)
    assert Leader.objects.count() == 1


def test_a_vacant_lead_is_taken_with_the_next_epoch() -> None:  # A2
    assert mint("one") == 1

    seen = leader.look()
    assert (seen.epoch, seen.holder, seen.is_vacant) == (1, "one", False)


def test_nobody_takes_a_lead_whose_lease_has_not_run_out() -> None:  # A2
    mint("one")

    assert mint("other") is None
    assert leader.look().holder == "one"


def test_who_holds_the_redis_lease_need_not_wait_for_the_row() -> None:  # A2
    mint("one")

    assert mint("other", is_sure=True) == 2


def test_of_two_who_saw_the_same_row_one_wins() -> None:  # A2
    seen = leader.look()
    first = leader.mint(seen=seen, holder="one", lease_seconds=30, is_sure=True, because="expired")
    second = leader.mint(
        seen=seen, holder="other", lease_seconds=30, is_sure=True, because="expired"
    )

    assert (first, second) == (1, None)


def test_a_lease_that_has_run_out_can_be_taken_and_the_old_term_says_so() -> None:  # A2, A15
    mint("one")
    past = database_now() - dt.timedelta(seconds=5)
    Leader.objects.update(expires_at=past)

    assert mint("other") == 2
    old, new = Term.objects.order_by("epoch")
    assert (old.holder, old.reason, old.ended_at) == ("one", "expired", past)
    assert (new.holder, new.ended_at) == ("other", None)


def test_renewing_extends_the_lease_and_tells_what_is_due_next() -> None:  # A2
    epoch = mint("one", lease=1)
    assert epoch is not None
    assert leader.renew(epoch=epoch, holder="one", lease_seconds=1) is not None
    due = database_now() + dt.timedelta(hours=1)
    Schedule.objects.create(name="x", job="tests.noop", expression="0 0 1 1 *")
    Schedule.objects.update(next_run_at=due)
    before = leader.look().expires_at

    renewal = leader.renew(epoch=epoch, holder="one", lease_seconds=60)

    assert renewal is not None
    assert renewal.earliest == due
    after = leader.look().expires_at
    assert before is not None
    assert after is not None
    assert after > before + dt.timedelta(seconds=30)


@pytest.mark.parametrize(("epoch", "holder"), [(1, "other"), (2, "one"), (0, "one")])
def test_only_the_holder_of_this_very_epoch_renews(epoch: int, holder: str) -> None:  # A2
    mint("one")

    assert leader.renew(epoch=epoch, holder=holder, lease_seconds=60) is None


def test_resigning_frees_the_lead_at_once() -> None:  # A10
    epoch = mint("one")
    assert epoch is not None

    assert leader.resign(epoch=epoch, holder="one", reason="resigned")
    assert mint("other") == 2
    assert Term.objects.get(epoch=1).reason == "resigned"


def test_nobody_resigns_for_another() -> None:  # A2; L20
    mint("one")

    assert not leader.resign(epoch=1, holder="other", reason="resigned")
    assert not leader.resign(epoch=7, holder="one", reason="resigned")
    assert leader.look().holder == "one"
