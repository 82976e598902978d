"""Tasks of django-ox: rows in PostgreSQL, found by polling."""

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


PROJECT = Project(
    submit=noop.enqueue,
    submit_stamped=stamped.enqueue,
    finished=rows("SELECT COUNT(*) FROM django_ox_oxtask WHERE status = 'SUCCESSFUL'"),
    workers=((*MANAGE, "ox_worker", "--processes=2", "--verbosity=0"),),
)
