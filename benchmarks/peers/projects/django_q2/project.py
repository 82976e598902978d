"""Tasks of django-q2: a queue in PostgreSQL or Redis, results as Django rows in both cases."""

from __future__ import annotations

from functools import partial

from django_q.brokers import get_broker
from django_q.tasks import async_task

from benchmarks.peers import stamps
from benchmarks.peers.project import MANAGE, Project, rows


def noop() -> None:
    stamps.append_once()


def stamped() -> None:
    stamps.append()


# Without one of its own each call would open a connection to the broker.
BROKER = get_broker()
PROJECT = Project(
    submit=partial(async_task, f"{__name__}.noop", broker=BROKER),
    submit_stamped=partial(async_task, f"{__name__}.stamped", broker=BROKER),
    finished=rows("SELECT COUNT(*) FROM django_q_task WHERE success"),
    workers=((*MANAGE, "qcluster"),),
)
