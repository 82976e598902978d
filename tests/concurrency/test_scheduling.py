"""Two actors at once, each with a connection of its own."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import psycopg
import pytest
from django.db import connection, connections, transaction

from sync_scheduler import ScheduleExists, cron, signals
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.models import Gate, Leader, Run, Schedule
from sync_scheduler.store import claims, gates, leader, slots
from sync_scheduler.store.moves import Admitted
from tests.integration.dispatch.leading import lead
from tests.integration.store.runs import JOB, make
from tests.services.server import wait_until
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")
RULE = cron("* * * * *", tz="UTC")
DUE = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)


def at_once(count: int, action: Callable[[int], T]) -> list[T]:
    """Do it in so many threads that start together; their answers."""
    gate = threading.Barrier(count)

    def one(number: int) -> T:
        try:
            gate.wait(20)
            return action(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def make_due(count: int) -> None:
    for number in range(count):
        Schedule.objects.register(f"s-{number}", job=jobs.noop, rule=RULE, overlap="concurrent")
    Schedule.objects.update(next_run_at=DUE)


def test_registering_from_many_nodes_at_once_creates_one_schedule() -> None:  # A3, C5
    done = at_once(6, lambda _: Schedule.objects.register("same", job=jobs.noop, rule=RULE).created)

    assert sorted(done) == [False] * 5 + [True]
    assert Schedule.objects.filter(name="same").count() == 1


def test_of_many_who_add_the_same_name_one_succeeds() -> None:  # A16
    def add(_: int) -> bool:
        try:
            Schedule.objects.add("same", job=jobs.noop, rule=RULE)
        except ScheduleExists:
            return False
        return True

    assert sorted(at_once(4, add)) == [False] * 3 + [True]


def test_many_first_looks_at_once_make_one_leader_row() -> None:  # C5
    at_once(4, lambda _: leader.look().epoch)

    assert Leader.objects.count() == 1


def test_of_many_candidates_at_once_one_gets_the_epoch() -> None:  # A2
    seen = leader.look()

    def mint(number: int) -> int | None:
        return leader.mint(
            seen=seen,
            holder=f"node-{number}",
            lease_seconds=30,
            is_sure=True,
            because="expired",
        )

    epochs = at_once(4, mint)
    assert sorted(epoch for epoch in epochs if epoch is not None) == [1]


def test_leaders_of_one_epoch_that_tick_at_once_dispatch_each_slot_once() -> None:  # A7
    make_due(20)
    term = lead()
    at_once(4, lambda _: tick(term, DUE + dt.timedelta(seconds=1)))

    tick(term, DUE + dt.timedelta(seconds=1))
    assert Run.objects.count() == 20
    assert Run.objects.values("schedule_id", "slot").distinct().count() == 20


def test_an_old_leader_that_ticks_beside_the_new_one_dispatches_nothing() -> None:  # A2
    make_due(20)
    old = lead("old")
    new = lead("new")

    def act(number: int) -> str:
        try:
            tick(old if number else new, DUE + dt.timedelta(seconds=1))
        except LeadershipLost:
            return "lost"
        return "led"

    at_once(2, act)
    # Rows that the old one held for a moment were passed over; they are still due.
    tick(new, DUE + dt.timedelta(seconds=1))

    assert set(Run.objects.values_list("epoch", flat=True)) == {new.epoch}
    assert Run.objects.count() == 20


locks_rows = pytest.mark.skipif(
    "not __import__('django.db').db.connection.features.has_select_for_update_skip_locked",
    reason="this database locks no single rows",
)


@contextmanager
def held(name: str) -> Iterator[None]:
    """Somebody holds the row of this schedule, and lets it go in the end whatever happens."""
    is_held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Schedule.objects.select_for_update().get(name=name)
                is_held.set()
                done.wait(20)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert is_held.wait(20)
        yield
    finally:
        done.set()
        holder.join(30)


@locks_rows
def test_a_locked_schedule_holds_up_nobody_else() -> None:  # L5
    make_due(5)
    term = lead()
    with held("s-0"):
        ticked = tick(term, DUE + dt.timedelta(seconds=1))

    assert (ticked.dispatched, ticked.held_up) == (4, 1)
    assert tick(term, DUE + dt.timedelta(seconds=1)).dispatched == 1


@locks_rows
@pytest.mark.parametrize(
    ("change", "written"),
    [
        ({"job": "tests.gone"}, {"failures": 1}),
        ({"job": "tests.gone", "failures": 4}, {"next_run_at": DUE + dt.timedelta(minutes=1)}),
        ({"expression": "no rule", "failures": 4}, {"next_run_at": None}),
    ],
    ids=["first failure", "last failure", "unreadable rule"],
)
def test_a_locked_schedule_that_fails_holds_up_nobody_else(
    change: dict[str, Any], written: dict[str, Any]
) -> None:  # L5, A6, A8
    make_due(5)
    term, told = lead(), []

    def hear(schedule: str, **_: object) -> None:
        told.append(schedule)

    Schedule.objects.filter(name="s-0").update(**change)
    signals.dispatch_failed.connect(hear)
    try:
        with held("s-0"):
            ticked = tick(term, DUE + dt.timedelta(seconds=1))
        assert (ticked.dispatched, ticked.failed, ticked.held_up) == (4, 0, 1)
        assert told == []

        assert tick(term, DUE + dt.timedelta(seconds=1)).failed == 1
        assert told == ["s-0"]
    finally:
        signals.dispatch_failed.disconnect(hear)
    assert Schedule.objects.filter(name="s-0", **written).exists()


@locks_rows
def test_the_end_of_a_pause_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:  # L5, A17
    make_due(2)
    pause = {"paused_at": DUE - dt.timedelta(days=1), "paused_until": DUE - dt.timedelta(hours=1)}
    Schedule.objects.filter(name="s-0").update(**pause)
    term, admit = lead(), slots.admit
    with ExitStack() as holding:

        def held_right_after(*given: Any) -> Admitted:
            done = admit(*given)
            holding.enter_context(held("s-0"))
            return done

        monkeypatch.setattr(slots, "admit", held_right_after)
        tick(term, DUE + dt.timedelta(seconds=1))
        assert Schedule.objects.get(name="s-0").paused_at is not None
    monkeypatch.setattr(slots, "admit", admit)

    # It has no effect any more, and goes with the next slot.
    assert tick(term, DUE + dt.timedelta(seconds=61)).dispatched == 2
    assert Schedule.objects.get(name="s-0").paused_at is None


def test_an_old_leader_whose_schedules_all_fail_finds_that_its_term_is_over() -> None:  # A2, A8
    make_due(1)
    Schedule.objects.update(job="tests.gone")
    old = lead("old")
    lead("new")

    with pytest.raises(LeadershipLost):
        tick(old, DUE + dt.timedelta(seconds=1))
    assert Schedule.objects.get().failures == 0


def test_an_edit_between_the_look_and_the_write_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    # L14: whatever the decision was derived from must still hold when it is written.
    make_due(3)
    term = lead()

    def edited_meanwhile(*seen: Any) -> object:
        decided = decide(*seen)
        one, two, three = Schedule.objects.order_by("name")
        one.enabled = False
        one.save()
        two.overlap = "queue"
        two.save()
        three.delete()
        return decided

    from sync_scheduler.dispatch import tick as module

    decide = module._decide
    monkeypatch.setattr(module, "_decide", edited_meanwhile)
    done = tick(term, DUE + dt.timedelta(seconds=1))

    assert (done.dispatched, done.held_up) == (0, 3)
    assert Run.objects.count() == 0


@pytest.mark.skipif(
    "not __import__('django.db').db.connection.features.has_select_for_update_skip_locked",
    reason="this database locks no single rows",
)
def test_a_slot_that_comes_due_while_its_schedule_is_removed_is_not_left_without_it() -> None:
    # A10: between the two statements by which a row and what points to it go
    make_due(1)
    term = lead()
    ticked: list[int] = []

    def look(execute: Any, sql: str, *given: Any) -> Any:
        if sql.startswith("DELETE") and "sync_scheduler_schedule" in sql:
            (done,) = at_once(1, lambda _: tick(term, DUE + dt.timedelta(seconds=1)))
            ticked.append(done.dispatched)
        return execute(sql, *given)

    with connection.execute_wrapper(look):
        assert Schedule.objects.unregister("s-0")

    assert ticked == [0]
    assert not Run.objects.filter(schedule_id__isnull=False).exists()


@pytest.fixture
def repeatable() -> Iterator[None]:
    """Connections of a project that wants REPEATABLE READ everywhere."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time and no levels")
    level: Any = "repeatable read"
    if connection.vendor == "postgresql":
        level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.close()
    connection.settings_dict["OPTIONS"]["isolation_level"] = level
    yield
    connection.close()
    del connection.settings_dict["OPTIONS"]["isolation_level"]


@pytest.mark.usefixtures("repeatable")
def test_who_waits_at_a_gate_sees_who_has_passed_it_meanwhile() -> None:
    # B15: whatever the isolation level
    first, second = make(gate="g"), make(gate="g")
    limit = {JOB: gates.Limit(concurrency=1, rate=None)}
    Gate.objects.create(name="g")

    def pass_second() -> int:
        try:
            return len(gates.claim_through_gates([second.id], "node", limit).claims)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert list(Gate.objects.select_for_update().filter(name="g"))
            asking = pool.submit(pass_second)
            # Not more often: MariaDB answers from a cache that only rests renew.
            wait_until(_somebody_waits_for_a_lock, seconds=20, what="one at the gate", every=0.2)
            claims.take([first.id], "node")
        assert asking.result(20) == 0
    second.refresh_from_db()
    assert second.waiting_for == "gate:g"


def _somebody_waits_for_a_lock() -> bool:
    questions = {
        "postgresql": "SELECT COUNT(*) FROM pg_locks WHERE NOT granted",
        "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    }
    with connection.cursor() as cursor:
        cursor.execute(questions[connection.vendor])
        return bool(cursor.fetchone()[0])


@pytest.mark.usefixtures("repeatable")
def test_registering_at_once_finds_the_others_schedule_at_every_isolation_level() -> None:
    # A3, C5
    def register(_: int) -> bool:
        return Schedule.objects.register("same", job=jobs.noop, rule=RULE).created

    for _ in range(5):
        Schedule.objects.unregister("same")
        assert sorted(at_once(6, register)) == [False] * 5 + [True]


@pytest.mark.usefixtures("repeatable")
def test_a_key_is_found_that_was_taken_after_the_callers_transaction_began() -> None:
    # B5: also where the transaction does not see what others have committed since
    if connection.vendor == "postgresql":
        pytest.skip("PostgreSQL breaks such a transaction off")
    with transaction.atomic():
        assert not Run.objects.exists()
        (other,) = at_once(1, lambda _: jobs.noop.using(key="k").submit())
        assert jobs.noop.using(key="k").submit().id == other.id
