"""Tasks of dj-queue: rows in PostgreSQL, woken by NOTIFY."""

from __future__ import annotations

from django.tasks import task

from benchmarks.peers import stamps
from benchmarks.peers.project import MANAGE, Project, rows


@task
def noop() -> None:
    stamps.append_once()


@task
def stamped() -> None:
    stamps.append()


def fill(count: int) -> None:
    for begin in range(0, count, 1000):
        noop.get_backend().enqueue_all([(noop, [], {})] * min(1000, count - begin))


PROJECT = Project(
    submit=noop.enqueue,
    submit_stamped=stamped.enqueue,
    finished=rows("SELECT COUNT(*) FROM dj_queue_jobs WHERE finished_at IS NOT NULL"),
    workers=((*MANAGE, "dj_queue"),),
    fill=fill,
)
