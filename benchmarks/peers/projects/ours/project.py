"""Runs of sync_scheduler: rows in PostgreSQL, announced through Redis where there is one."""

from __future__ import annotations

from benchmarks.peers.project import MANAGE, Project, rows
from benchmarks.peers.projects.ours import jobs
from sync_scheduler.coordination import announcer


def fill(count: int) -> None:
    for begin in range(0, count, 1000):
        jobs.noop.submit_many([{}] * min(1000, count - begin))


PROJECT = Project(
    submit=jobs.noop.submit,
    submit_stamped=jobs.stamped.submit,
    finished=rows("SELECT COUNT(*) FROM sync_scheduler_run WHERE status = 'completed'"),
    workers=((*MANAGE, "runscheduler", "--processes=2", "--threads=1", "--verbosity=0"),),
    fill=fill,
    settle=lambda: announcer.flush(30),
)
