"""Jobs of procrastinate: rows in PostgreSQL, woken by NOTIFY."""

from __future__ import annotations

from procrastinate.contrib.django import app

from benchmarks.peers import stamps
from benchmarks.peers.project import MANAGE, Project, rows


# A coroutine: procrastinate's worker is one, and would otherwise start a thread for each job.
@app.task(name="noop")
async def noop() -> None:
    stamps.append_once()


@app.task(name="stamped")
async def stamped() -> None:
    stamps.append()


def fill(count: int) -> None:
    for begin in range(0, count, 1000):
        noop.batch_defer(*[{}] * min(1000, count - begin))


WORKER = (*MANAGE, "procrastinate", "worker", "--concurrency=5")
PROJECT = Project(
    submit=noop.defer,
    submit_stamped=stamped.defer,
    finished=rows("SELECT COUNT(*) FROM procrastinate_jobs WHERE status = 'succeeded'"),
    workers=(WORKER, WORKER),
    fill=fill,
)
