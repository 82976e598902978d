"""The dispatcher's loops together: none of them may be missing while this node leads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from sync_scheduler.models import Leader, Term
from sync_scheduler.processes.dispatcher import Dispatcher
from sync_scheduler.processes.housekeeping import Housekeeping
from tests.services.server import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

QUICK = {"LEADER_LEASE": 1.0, "LEADER_HEARTBEAT": 0.1, "SWEEP_INTERVAL": 0.2}


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    with override_settings(SYNC_SCHEDULER=QUICK):
        made = Dispatcher("node")
        yield made
        made.stop()


# The thread that is to die dies of an exception that is not to be handled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_node_whose_housekeeping_has_died_does_not_lead(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # L19: elected, but not working, is not leading
    dispatcher.start()
    wait_until(lambda: dispatcher.is_leading, seconds=20, what="it leads")

    def die(self: Housekeeping) -> float:
        raise SystemExit

    monkeypatch.setattr(Housekeeping, "step", die)
    wait_until(lambda: not dispatcher.is_leading, seconds=20, what="it has given up")
    wait_until(
        lambda: Term.objects.get(epoch=1).ended_at is not None, seconds=20, what="it has said so"
    )
    assert Term.objects.get(epoch=1).reason == "its housekeeping thread has died"
    # Nor does it try again: another node may lead at once.
    assert Leader.objects.get().holder == ""


def test_housekeeping_that_fails_is_tried_again(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A14, L19
    step, calls = Housekeeping.step, []

    def fail_once(self: Housekeeping) -> float:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("by chance")
        return step(self)

    monkeypatch.setattr(Housekeeping, "step", fail_once)
    dispatcher.start()
    wait_until(lambda: len(calls) > 2, seconds=20, what="it goes on")
    wait_until(lambda: dispatcher.is_leading, seconds=20, what="it leads")
