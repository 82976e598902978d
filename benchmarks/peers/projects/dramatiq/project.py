"""Messages of dramatiq: in Redis, and removed when done; with BENCH_RESULTS a result is kept."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers import stamps
from benchmarks.peers.project import PYTHON, Project, nothing, redis, redis_url

KEEPS_RESULTS = os.environ["BENCH_RESULTS"] == "yes"

broker = RedisBroker(url=redis_url(0))
if KEEPS_RESULTS:
    broker.add_middleware(Results(backend=RedisBackend(url=redis_url(1)), store_results=True))
dramatiq.set_broker(broker)
submitted = [0]


@dramatiq.actor
def noop() -> None:
    stamps.append_once()


@dramatiq.actor
def stamped() -> None:
    stamps.append()


def submit() -> None:
    noop.send()
    submitted[0] += 1


def finished() -> int:
    """Results, or else messages that are no longer there: dramatiq removes what is done."""
    if KEEPS_RESULTS:
        return int(redis(1).dbsize())
    return submitted[0] - int(redis(0).hlen("dramatiq:default.msgs"))


PROJECT = Project(
    prepare=nothing,
    submit=submit,
    submit_stamped=stamped.send,
    finished=finished,
    workers=(
        (
            *(PYTHON, "-m", "dramatiq", "benchmarks.peers.projects.dramatiq.project"),
            *("--processes", "2"),
        ),
    ),
)
