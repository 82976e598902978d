"""Tasks of Celery: messages and results in Redis."""

from __future__ import annotations

from celery import Celery

from benchmarks.peers import stamps
from benchmarks.peers.project import PYTHON, Project, nothing, redis, redis_url

app = Celery("peers", broker=redis_url(0), backend=redis_url(1))
app.conf.update(worker_prefetch_multiplier=64)


@app.task(name="noop")
def noop() -> None:
    stamps.append_once()


@app.task(name="stamped")
def stamped() -> None:
    stamps.append()


PROJECT = Project(
    prepare=nothing,
    submit=noop.delay,
    submit_stamped=stamped.delay,
    finished=lambda: redis(1).dbsize(),
    workers=(
        (
            *(PYTHON, "-m", "celery", "-A", "benchmarks.peers.projects.celery_redis.project"),
            *("worker", "--concurrency=2"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
    ),
)
