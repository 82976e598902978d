"""Waking those who wait for a Run to end.

Whoever waits registers its interest first, then looks at the row, then blocks. Whoever ends a Run
commits first, then looks for interest. In this order no wake-up is lost; a look at the row every
second stands behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sync_scheduler import clock, conf
from sync_scheduler.coordination import client

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class Waiter:
    """Without Redis: look again, soon at first, then less often."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE

    def wait(self, seconds: float) -> None:
        clock.sleep(min(self._pause, seconds))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)


class _WokenWaiter(Waiter):
    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id
        self._blocking = client.blocking_client(_LOOK_AGAIN_SECONDS)

    def wait(self, seconds: float) -> None:
        block = max(min(seconds, _LOOK_AGAIN_SECONDS), 0.01)
        try:
            self._blocking.blpop([client.keys().done(self._run_id)], timeout=block)
        except client.UNREACHABLE:
            super().wait(seconds)

    def close(self) -> None:
        self._blocking.close()


@contextmanager
def interest(run_id: str, seconds: float) -> Iterator[Waiter]:
    """Register that somebody waits for this Run, for so long."""
    if not conf.get().uses_redis:
        yield Waiter()
        return
    try:
        until = clock.now().timestamp() + seconds + 5
        client.client().zadd(client.keys().joined, {run_id: until})
        waiter = _WokenWaiter(run_id)
    except client.UNREACHABLE:
        yield Waiter()
        return
    try:
        yield waiter
    finally:
        waiter.close()


def ended(run_ids: Sequence[str]) -> None:
    """Wake those who wait for any of these. Never raises: they look again by themselves."""
    if not run_ids or not conf.get().uses_redis or client.is_broken():
        return
    names, now = client.keys(), clock.now().timestamp()
    try:
        pipe = client.client().pipeline(transaction=False)
        pipe.zremrangebyscore(names.joined, "-inf", now)
        pipe.zcard(names.joined)
        if pipe.execute()[1] == 0:
            return  # as a rule nobody waits; sending all ids would cost more than the rest
        scores = client.client().zmscore(names.joined, list(run_ids))
        waited_for = [
            run_id for run_id, score in zip(run_ids, scores, strict=True) if score is not None
        ]
        if not waited_for:
            return
        pipe = client.client().pipeline(transaction=False)
        for run_id in waited_for:
            pipe.lpush(names.done(run_id), "1", "1", "1", "1")
            pipe.expire(names.done(run_id), 60)
        pipe.execute()
    except client.UNREACHABLE:
        client.report_broken()
