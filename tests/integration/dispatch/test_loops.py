"""The dispatcher's loops together: none of them may be missing while this node leads."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.test import override_settings

from sync_scheduler import clock, every
from sync_scheduler.coordination import client
from sync_scheduler.dispatch.tick import Ticked
from sync_scheduler.models import Leader, Schedule, Term
from sync_scheduler.processes import dispatcher as module
from sync_scheduler.processes.dispatcher import Dispatcher
from sync_scheduler.processes.housekeeping import Housekeeping
from tests.integration.dispatch.leading import lead
from tests.services.server import wait_until
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

# A lease that nobody loses for having waited for the processor, or for SQLite's only lock.
QUICK = {"LEADER_LEASE": 4.0, "LEADER_HEARTBEAT": 0.1, "SWEEP_INTERVAL": 0.2}


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    with override_settings(SYNC_SCHEDULER=QUICK):
        made = Dispatcher("node")
        yield made
        made.stop()


def is_vacant() -> bool:
    return Leader.objects.get().holder == ""


# The thread that is to die dies of an exception that is not to be handled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_node_whose_housekeeping_has_died_does_not_lead(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # L19: elected, but not working, is not leading
    dispatcher.start()
    wait_until(lambda: dispatcher.is_leading, seconds=60, what="it leads")

    def die(self: Housekeeping) -> float:
        raise SystemExit

    monkeypatch.setattr(Housekeeping, "step", die)
    wait_until(lambda: not dispatcher.is_leading, seconds=60, what="it has given up")
    wait_until(
        lambda: Term.objects.get(epoch=1).ended_at is not None, seconds=60, what="it has said so"
    )
    assert Term.objects.get(epoch=1).reason == "its housekeeping thread has died"
    # Nor does it try again: another node may lead at once. (The reason is written before.)
    wait_until(is_vacant, seconds=60, what="another node may lead")


def test_a_node_whose_dispatching_hangs_gives_the_lead_away(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # L4, faults A10: its renewals would go on for ever
    goes_on = threading.Event()

    def hang(*given: object) -> Ticked:
        goes_on.wait(300)
        return Ticked()

    monkeypatch.setattr(module, "tick", hang)
    dispatcher.start()
    try:
        said = Term.objects.filter(reason="its dispatch loop makes no progress")
        wait_until(said.exists, seconds=60, what="it has given the lead away")
        wait_until(is_vacant, seconds=60, what="another node may lead")
        assert not dispatcher.is_leading
    finally:
        goes_on.set()
    wait_until(lambda: dispatcher.is_leading, seconds=60, what="it leads again")


def test_housekeeping_that_fails_is_tried_again(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A14, L19
    step, calls, lost = Housekeeping.step, [], []

    def fail_once(self: Housekeeping) -> float:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("by chance")
        return step(self)

    def lose(self: Housekeeping) -> None:
        lost.append(len(calls))

    monkeypatch.setattr(Housekeeping, "step", fail_once)
    # W12: who could not look may not say that others were silent
    monkeypatch.setattr(Housekeeping, "lose_contact", lose)
    dispatcher.start()
    wait_until(lambda: len(calls) > 2, seconds=60, what="it goes on")
    wait_until(lambda: dispatcher.is_leading, seconds=60, what="it leads")
    assert lost[:1] == [1]


@pytest.mark.parametrize("dispatched", [0, 3])
def test_a_schedule_that_is_held_up_makes_no_other_one_late(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, dispatched: int
) -> None:
    # L5, A6
    now = clock.now()
    soon = now + dt.timedelta(seconds=0.25)
    for name, due in {"locked": now - dt.timedelta(seconds=5), "other": soon}.items():
        Schedule.objects.register(name, job=jobs.noop, rule=every(hours=1))
        Schedule.objects.filter(name=name).update(next_run_at=due)
    ticked = Ticked(due=1 + dispatched, dispatched=dispatched, held_up=1)
    monkeypatch.setattr(module, "tick", lambda *_: ticked)
    monkeypatch.setattr(clock, "now", lambda: now)
    slept: list[float] = []
    monkeypatch.setattr(dispatcher._stopping, "wait", slept.append)

    done, earliest = dispatcher._tick(lead())
    dispatcher._sleep(earliest, 1.0)

    assert (done, earliest) == (ticked, soon)
    assert slept == [0.25]


@pytest.mark.parametrize("hours", [2, -2])
def test_no_slot_comes_early_because_the_clock_of_the_leader_is_set(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    # L7, L8: the database says so at the next renewal, and until then the steady clock counts
    Schedule.objects.register("soon", job=jobs.noop, rule=every(hours=1))
    monkeypatch.setattr(dispatcher.leadership, "_find_fault", str)  # the loops do not run here
    dispatcher.leadership.step()
    term, right = dispatcher.leadership.term, clock.now()
    assert term is not None
    with clock.shifted(dt.timedelta(hours=hours)):
        done, _ = dispatcher._tick(term)
        believed = dispatcher.leadership.offset.database_time()

    assert done == Ticked()
    assert abs(believed - right) < dt.timedelta(hours=1)


def test_a_heartbeat_counts_from_the_one_before_however_long_that_took(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A2: with a short lease and a Redis that does not answer, the row would not be renewed in time
    took, waited, now = iter([0.0, 0.3, 0.7]), list[float](), 100.0

    def step() -> float:
        nonlocal now
        now += next(took)
        return 0.5

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            dispatcher._stopping.set()

    dispatcher._threads[1] = threading.Thread(target=int)
    dispatcher._threads[1].start()
    monkeypatch.setattr(dispatcher.leadership, "step", step)
    monkeypatch.setattr(dispatcher._elect, "wait", wait)
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    dispatcher._run_elections()

    assert waited == pytest.approx([0.5, 0.2, 0.0])


def test_who_does_not_lead_keeps_no_idle_connections(redis_url: str) -> None:
    # A2: a firewall forgets them, and the next term would begin with waiting for an answer
    made: dict[str, BaseDatabaseWrapper] = {}

    def note(connection: BaseDatabaseWrapper, **_: object) -> None:
        made[threading.current_thread().name] = connection

    connection_created.connect(note)
    with override_settings(SYNC_SCHEDULER={**QUICK, "REDIS_URL": redis_url}):
        dispatcher = Dispatcher("node")
        dispatcher.start()
        try:
            wait_until(lambda: {"elector", "dispatch"} <= set(made), seconds=20, what="it leads")
            client.client().set(client.keys().leader, "other", px=60_000)
            wait_until(
                lambda: all(made[name].connection is None for name in ("elector", "dispatch")),
                seconds=20,
                what="both connections are closed",
            )
        finally:
            connection_created.disconnect(note)
            dispatcher.stop()
