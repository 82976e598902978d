"""Errors that nobody foresaw: a node outlives them, and what it held is not lost."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node
from sync_scheduler.processes.ledger import Ledger
from sync_scheduler.processes.pool import Pool
from sync_scheduler.processes.watch import Watch
from sync_scheduler.processes.worker import Worker
from sync_scheduler.store import claims, nodes
from sync_scheduler.work import claim as claiming
from sync_scheduler.work import complete
from tests.integration.store.runs import claim_of, ending, make

pytestmark = pytest.mark.django_db(transaction=True)


class Unforeseen(Exception):
    pass


class Childless(Pool):
    """A pool that begins nothing."""

    def __init__(self) -> None:
        super().__init__(None, size=0, threads=1, async_slots=1)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with override_settings(SYNC_SCHEDULER={"NODE_HEARTBEAT": 0.05, "NODE_LEASE": 30.0}):
        yield


def test_an_outcome_waits_when_writing_it_fails_for_any_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B11
    settle, failed = complete.settle, list[int]()

    def fail_once(endings: Any) -> Any:
        if not failed:
            failed.append(1)
            raise Unforeseen
        return settle(endings)

    monkeypatch.setattr(complete, "settle", fail_once)
    run, ledger = make("running"), Ledger()
    ledger.note(ending(claim_of(run), State.COMPLETED))
    ledger.settle(idle=True, patient=False)
    assert not ledger.is_empty()
    ledger.settle(idle=True, patient=False)
    run.refresh_from_db()
    assert (failed, run.status) == ([1], "completed")


def test_a_worker_claims_on_after_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # B11
    worker, asked = Worker(Childless(), (), "node-a"), list[int]()

    def fail_once(*_: Any) -> list[claims.Claim]:
        asked.append(1)
        if len(asked) == 1:
            raise Unforeseen
        worker.stop()
        return []

    monkeypatch.setattr(claiming, "poll", fail_once)
    monkeypatch.setattr(worker, "_wanted", lambda: 1)
    worker.run()
    assert asked == [1, 1]


class Worried:
    """A worker that cannot say what it holds when it is first asked."""

    def __init__(self) -> None:
        self.asked = 0

    def held(self) -> Mapping[uuid.UUID, int]:
        self.asked += 1
        if self.asked == 1:
            raise Unforeseen
        return {}

    def running_count(self) -> int:
        return 0

    def lost(self, run_id: uuid.UUID) -> None: ...

    def found(self, claim: claims.Claim) -> None: ...

    def paused(self, queues: frozenset[str]) -> None: ...


def test_a_node_beats_on_after_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # C1: it would work on, and others would begin its Runs a second time
    facts = nodes.NodeFacts(
        name="node-a",
        host="",
        pid=1,
        roles="work",
        version="",
        tzdata="",
        queues=(),
        jobs=(),
        slots=1,
    )
    beat, was_beaten = nodes.beat, threading.Event()

    def beat_and_say(*given: Any, **named: Any) -> bool:
        lives = beat(*given, **named)
        was_beaten.set()
        return lives

    monkeypatch.setattr(nodes, "beat", beat_and_say)
    worker = Worried()
    watch = Watch(facts, worker)
    watch.start()
    try:
        assert was_beaten.wait(30)
        assert worker.asked > 1
        assert Node.objects.filter(name="node-a").exists()
    finally:
        watch.stop()
        connections.close_all()
