"""A node's pulse while Redis, which would tell of cancels, is away."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping

import pytest
from django.test import override_settings

from sync_scheduler.processes import watch
from sync_scheduler.store import claims, nodes

pytestmark = pytest.mark.django_db(transaction=True)

# Nothing listens there, and nothing else would make the pulse look within an hour.
SETTINGS = {"REDIS_URL": "redis://127.0.0.1:1/0", "NODE_HEARTBEAT": 3600.0, "NODE_LEASE": 9000.0}


class Curious:
    """Executes a Run that has ended behind its back, and hears of it."""

    def __init__(self) -> None:
        self.run = uuid.uuid4()
        self.told = threading.Event()

    def held(self) -> Mapping[uuid.UUID, int]:
        return {self.run: 1}

    def running_count(self) -> int:
        return 1

    def lost(self, run_id: uuid.UUID) -> None:
        if run_id == self.run:
            self.told.set()

    def found(self, claim: claims.Claim) -> None:
        return None

    def paused(self, queues: frozenset[str]) -> None:
        return None


def test_a_cancel_is_noticed_from_the_rows_as_soon_as_without_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B8: within a second, with and without Redis
    monkeypatch.setattr(watch, "_LOOK_SECONDS_BESIDE_REDIS", 3600.0)
    facts = nodes.NodeFacts(
        name="node", host="here", pid=1, roles="work", version="", tzdata="", queues=(), jobs=(),
        slots=1,
    )  # fmt: skip
    worker = Curious()
    with override_settings(SYNC_SCHEDULER=SETTINGS):
        pulse = watch.Watch(facts, worker)
        pulse.start()
        try:
            assert worker.told.wait(20)
        finally:
            pulse.stop()
