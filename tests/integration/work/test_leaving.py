"""A node that is told to stop: nothing that it began or ended is begun again elsewhere."""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.test import override_settings

from sync_scheduler.lifecycle import State
from sync_scheduler.processes import service
from sync_scheduler.processes.child import Child
from sync_scheduler.processes.handle import ChildHandle
from sync_scheduler.processes.leaving import Leaving
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.processes.nursery import Nursery
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.pool import Pool
from sync_scheduler.processes.slate import Slate
from sync_scheduler.processes.worker import Worker
from sync_scheduler.store import claims
from sync_scheduler.work import claim as claiming
from sync_scheduler.work import complete
from sync_scheduler.work.wire import Order, Reader, Report, frame, note
from tests.integration.store.runs import JOB, claim_of, ending, make

NODE = "node-a"


class Stage:
    """In the place of a nursery: its children are played by the test, through their pipes."""

    def __init__(self) -> None:
        self.controls: list[socket.socket] = []
        self.orders: list[socket.socket] = []
        self._pids = itertools.count(1)

    def spawn(self, slate: int) -> tuple[int, socket.socket, socket.socket]:
        (control, its_control), (orders, its_orders) = socket.socketpair(), socket.socketpair()
        self.controls.append(its_control)
        self.orders.append(its_orders)
        return next(self._pids), control, orders

    def status_of(self, pid: int) -> int | None:
        return -9

    def close(self) -> None:
        for sock in (*self.controls, *self.orders):
            sock.close()


@pytest.fixture(name="stage")
def _stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage()
    # A killed child is one whose pipes close; its process id is made up.
    monkeypatch.setattr(
        ChildHandle, "kill", lambda self: stage.controls[self.pid - 1].shutdown(socket.SHUT_RDWR)
    )
    with override_settings(SYNC_SCHEDULER={"SHUTDOWN_GRACE": 0.0, "NODE_LEASE": 30.0}):
        yield stage
    stage.close()


def pool_of(stage: Stage, size: int = 1) -> Pool:
    return Pool(stage, size=size, threads=1, async_slots=1)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what the worker waits for


@pytest.mark.django_db(transaction=True)
def test_what_was_being_claimed_when_the_signal_came_is_not_begun(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C2; W19: it would be killed as soon as it has begun, and begin again elsewhere
    run = make()
    worker = Worker(pool_of(stage), (), NODE)

    def claim_slowly(*_: Any) -> list[claims.Claim]:
        taken = claims.claim([run.id], NODE, [JOB])
        worker.stop()
        return taken

    monkeypatch.setattr(claiming, "poll", claim_slowly)
    worker.run()

    assert not select.select(stage.orders, [], [], 0)[0] or stage.orders[0].recv(1) == b""
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("submitted", 0)


@pytest.mark.django_db(transaction=True)
def test_reports_are_heard_out_however_long_the_loop_was_held_up(stage: Stage) -> None:
    # C2: its handler has ended, and would run again if nobody listened
    run = make("running", token=1)
    pool = pool_of(stage)
    worker = Worker(pool, (), NODE)
    pool.fill()
    (child,) = pool
    child.reserve(claim_of(run), Pace())
    report = Report(run=run.id.hex, token=1, kind="done", started=1.0, finished=2.0)
    stage.controls[0].sendall(frame([report.message]))
    worker.stop()
    # A statement has held the loop up since then, until long after the grace time.
    worker._leaving._stop_at -= 3600
    worker.run()

    run.refresh_from_db()
    assert run.status == "completed"


@pytest.mark.django_db(transaction=True)
def test_a_slow_database_is_waited_for_while_the_node_is_trusted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C2
    settle, may_write = complete.settle, threading.Event()

    def settle_slowly(endings: Sequence[Any]) -> Any:
        assert may_write.wait(60)
        return settle(endings)

    monkeypatch.setattr(complete, "settle", settle_slowly)
    woken = threading.Event()
    ledger, leaving = Ledger(woken.set), Leaving()
    run = make("running", token=1)
    ledger.note(ending(claim_of(run), State.COMPLETED))
    ledger._since -= 1
    ledger.settle(idle=False)
    leaving.begin(at_once=True)
    assert leaving.look()
    assert leaving._over_at is not None
    leaving._over_at -= 20
    assert not leaving.is_hopeless(ledger)
    leaving._over_at -= 20
    assert leaving.is_hopeless(ledger), "its lease is over, and others have taken the Run"
    may_write.set()
    assert woken.wait(60)
    ledger.close()
    run.refresh_from_db()
    assert run.status == "completed"


def test_a_database_that_refuses_is_not_waited_for(stage: Stage) -> None:
    # B9
    leaving, ledger = Leaving(), Ledger()
    leaving.begin(at_once=True)
    ledger._endings = [object()]  # type: ignore[list-item]
    ledger.is_refused = True
    assert not leaving.is_hopeless(ledger), "nobody has been told yet that time is up"
    leaving.look()
    assert leaving._over_at is not None
    assert not leaving.is_hopeless(ledger)
    leaving._over_at -= 3
    assert leaving.is_hopeless(ledger)


# ------------------------------------------------------------------ who runs what


@pytest.mark.django_db(transaction=True)
def test_a_run_is_not_begun_beside_itself(stage: Stage) -> None:
    # C2: taken from this node while it was silent, and claimed by it once more
    pool = pool_of(stage, size=2)
    pool.fill()
    first, _ = pool
    run = make("running", token=1)
    first.reserve(claim_of(run), Pace())
    again = claim_of(run, token=2)
    assert pool._taker(again, Pace()) is None
    first.finish(run.id.hex, 1)
    assert pool._taker(again, Pace()) is not None
    pool.close()


@pytest.mark.django_db(transaction=True)
def test_a_report_that_comes_twice_does_not_end_the_next_attempt(stage: Stage) -> None:
    # C2; B2
    pool = pool_of(stage)
    pool.fill()
    (child,) = pool
    run = make("running", token=2)
    child.reserve(claim_of(run), Pace())
    assert child.finish(run.id.hex, 1) is None
    assert run.id.hex in child.held
    assert child.finish(run.id.hex, 2) is not None
    pool.close()


def test_everything_that_waits_is_given_back_however_much_it_is() -> None:
    # W19
    control, its_control = socket.socketpair()
    orders, its_orders = socket.socketpair()
    slate, descriptor = Slate.new(threads=1)
    os.close(descriptor)
    with control, its_control, orders, its_orders:
        control.settimeout(10)
        child = Child(its_control, its_orders, slate, threads=1)
        sent = [
            Order(uuid.uuid4().hex, JOB, {"text": "x" * 30_000}, 1, 1, "submit", None, 0, NODE)
            for _ in range(4)
        ]
        orders.sendall(frame(order.message for order in sent))
        child._obey("recall", [[order.run for order in sent]])
        (answer,) = Reader().feed(control.recv(1 << 16))
        assert answer == list(note("recalled", [order.run for order in sent]))
    slate.close()


# ------------------------------------------------------------------ in which order a node ends


def test_a_node_signs_off_when_its_children_are_dead_and_beats_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # C2: from the moment a node is silent or gone, others begin what it holds
    told: list[str] = []

    class Part:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, verb: str) -> Any:
            return lambda *_, **__: told.append(f"{self._name} {verb}")

    for name in ("Nursery", "Pool", "Worker", "Watch", "nodes", "connections", "announcer"):
        part = Part(name.lower())
        is_class = name[0].isupper()
        monkeypatch.setattr(service, name, (lambda *_, part=part, **__: part) if is_class else part)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(service.Service, "_facts", lambda self: None)
    monkeypatch.setattr(service.Service, "_run_parts", lambda self: told.append("work"))
    service.Service(service.Plan(dispatch=False)).run()

    ends = ["work", "nursery close", "watch stop", "nodes leave"]
    assert [word for word in told if word in ends] == ends


def test_a_nursery_ends_after_its_children() -> None:
    # C2: a process that was killed is not yet one that is dead
    def hold_much(control: socket.socket, orders: socket.socket, slate: int) -> None:
        memory = bytearray(b"x") * (200 << 20)  # takes the system a while to take back
        control.sendall(b"ready")
        control.recv(1)
        del memory

    nursery = Nursery(hold_much)
    slate, descriptor = Slate.new(threads=1)
    _, control, orders = nursery.spawn(descriptor)
    os.close(descriptor)
    with control, orders:
        control.settimeout(30)
        assert control.recv(5) == b"ready"
        nursery.close()
        control.setblocking(False)
        assert control.recv(1) == b"", "its end of the pipe is open: it lives"
    slate.close()
