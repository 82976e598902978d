"""Tasks of django-tasks-db: rows in PostgreSQL, found by polling."""

from __future__ import annotations

from django_tasks import task

from benchmarks.peers import stamps
from benchmarks.peers.project import MANAGE, Project, rows


@task
def noop() -> None:
    stamps.append_once()


@task
def stamped() -> None:
    stamps.append()


WORKER = (*MANAGE, "db_worker", "--no-startup-delay", "--verbosity=0")
PROJECT = Project(
    submit=noop.enqueue,
    submit_stamped=stamped.enqueue,
    finished=rows(
        "SELECT COUNT(*) FROM django_tasks_database_dbtaskresult WHERE status = 'SUCCESSFUL'"
    ),
    workers=(WORKER, WORKER),
)
