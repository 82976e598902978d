"""Everybody who writes Runs does so at once, over the same rows, in every order."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from sync_scheduler import clock
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node, Run
from sync_scheduler.store import cancels, claims, nodes, waiting
from tests.concurrency.test_scheduling import at_once
from tests.integration.store.runs import JOB, ending, make

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, SECONDS, MOST_SECONDS = 60, 3.0, 60.0


def test_claims_endings_sweeps_cancels_and_pruning_meet_without_an_error() -> None:
    # W2, W3: rows are locked in the order of their ids, and what is held is passed over
    from sync_scheduler.store.outcomes import record

    now = clock.now()
    for name in ("silent", "alive"):
        Node.objects.create(name=name, host="h", pid=1, started_at=now, heartbeat_at=now)
    ids = [make(guard=i % 7 if i % 3 == 0 else None).id for i in range(RUNS)]
    began = time.monotonic()
    done: Counter[str] = Counter()

    def is_over() -> bool:
        seconds = time.monotonic() - began
        has_all = all(done[what] for what in ("ended", "taken back", "cancelled"))
        return seconds >= (SECONDS if has_all else MOST_SECONDS)

    def claim_and_end(draw: random.Random) -> None:
        some = draw.sample(ids, 15)
        held = claims.claim(some, draw.choice(["alive", "silent"]), [JOB])
        waiting.park_behind_guard(some)
        draw.shuffle(held)
        back = [ending(one, State.SUBMITTED, run_at=one.run_at) for one in held[::2]]
        done["ended"] += len(record(back).accepted)

    def take_back(draw: random.Random) -> None:
        done["taken back"] += len(
            nodes.take_back(nodes.Silence(node="silent", seconds=600)).accepted
        )

    def cancel(draw: random.Random) -> None:
        # Never every second one, so that something is left however slow the others are.
        one = draw.choice(ids[::2])
        done["cancelled"] += cancels.cancel(one, reason="", by="").cancelled
        waiting.release_free()

    def prune(draw: random.Random) -> None:
        done["pruned"] += Pruner().prune(clock.now())
        nodes.beat("alive", running=1, clock_offset=0.0)

    def work(number: int) -> None:
        act = (claim_and_end, claim_and_end, take_back, cancel, prune)[number]
        draw = random.Random(number)
        while not is_over():
            act(draw)

    at_once(5, work)
    assert done["ended"] > 0
    assert done["cancelled"] > 0
    assert done["taken back"] > 0
    assert Run.objects.filter(status="running", guard__isnull=False).count() <= 7
