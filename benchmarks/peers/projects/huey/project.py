"""Tasks of huey: messages and results in Redis."""

from __future__ import annotations

import os

from huey import RedisHuey

from benchmarks.peers import stamps
from benchmarks.peers.project import PYTHON, Project, nothing, redis, redis_url

# The result None is not stored unless one says so, and an outcome shall be kept here.
huey = RedisHuey("peers", url=redis_url(0), results=True, store_none=True)


@huey.task()
def noop() -> None:
    stamps.append_once()


@huey.task()
def stamped() -> None:
    stamps.append()


CONSUMER = (
    *(PYTHON, "-m", "huey.bin.huey_consumer"),
    *("benchmarks.peers.projects.huey.project.huey", "--quiet"),
)
# Two processes either way: two workers of one consumer, or two consumers of one thread each.
WORKERS = {
    "process": ((*CONSUMER, "--worker-type=process", "--workers=2"),),
    "thread": (
        (*CONSUMER, "--worker-type=thread", "--workers=1"),
        (*CONSUMER, "--worker-type=thread", "--workers=1", "--no-periodic"),
    ),
}
PROJECT = Project(
    prepare=nothing,
    submit=noop,
    submit_stamped=stamped,
    finished=lambda: redis(0).hlen("huey.results.peers"),
    workers=WORKERS[os.environ["BENCH_WORKERS"]],
)
