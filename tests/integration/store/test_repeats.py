"""What is done again when the database says that others were in the way."""

from __future__ import annotations

import pytest
from django.db import OperationalError, transaction

from sync_scheduler import clock
from sync_scheduler.store.locking import repeat_on_deadlock

pytestmark = pytest.mark.django_db(transaction=True)

DEADLOCK, WAITED, GONE = 1213, 1205, 2006


class Unlucky:
    """Fails as the driver does, a number of times."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.left, self.tries = code, times, 0

    def __call__(self) -> str:
        self.tries += 1
        if self.left == 0:
            return "done"
        self.left -= 1
        raise OperationalError(self.code, "in the way") from RuntimeError(self.code, "in the way")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    made: list[float] = []
    monkeypatch.setattr(clock, "sleep", made.append)
    return made


def test_a_deadlock_costs_nothing_though_others_come_again_and_again(pauses: list[float]) -> None:
    # W2
    assert repeat_on_deadlock(Unlucky(DEADLOCK, 9)) == "done"
    assert len(pauses) == 9
    assert max(pauses) <= 0.2
    assert sum(pauses) > 0


def test_it_is_not_tried_for_ever(pauses: list[float]) -> None:
    # W2
    always = Unlucky(DEADLOCK, 1000)
    with pytest.raises(OperationalError):
        repeat_on_deadlock(always)
    assert always.tries == len(pauses) + 1 == 10


def test_a_lock_that_was_waited_for_is_given_up_sooner(pauses: list[float]) -> None:
    # W2
    always = Unlucky(WAITED, 1000)
    with pytest.raises(OperationalError):
        repeat_on_deadlock(always)
    assert always.tries == len(pauses) + 1 == 5


def test_other_errors_are_told_at_once(pauses: list[float]) -> None:
    # W2
    gone = Unlucky(GONE, 1)
    with pytest.raises(OperationalError):
        repeat_on_deadlock(gone)
    assert (gone.tries, pauses) == (1, [])


def test_a_transaction_is_repeated_by_whoever_began_it(pauses: list[float]) -> None:
    # W2: half of it is gone already
    inside = Unlucky(DEADLOCK, 1)
    with pytest.raises(OperationalError), transaction.atomic():
        repeat_on_deadlock(inside)
    assert (inside.tries, pauses) == (1, [])
