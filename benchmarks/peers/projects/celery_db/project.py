"""Tasks of Celery: messages in Redis, results as rows of django-celery-results."""

from __future__ import annotations

from celery import Celery

from benchmarks.peers import stamps
from benchmarks.peers.project import PYTHON, Project, redis_url, rows
from benchmarks.peers.projects.celery_db.settings import IS_TUNED

app = Celery("peers", broker=redis_url(), backend="django-db")
# A result row is written for every task in both cases. Tuned: connections to the database live
# on from task to task, and the workers fetch more messages ahead.
if IS_TUNED:
    app.conf.update(CELERY_DB_REUSE_MAX=1_000_000, worker_prefetch_multiplier=64)


@app.task(name="noop")
def noop() -> None:
    stamps.append_once()


@app.task(name="stamped")
def stamped() -> None:
    stamps.append()


QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat") if IS_TUNED else ()
PROJECT = Project(
    submit=noop.delay,
    submit_stamped=stamped.delay,
    finished=rows("SELECT COUNT(*) FROM django_celery_results_taskresult WHERE status = 'SUCCESS'"),
    workers=(
        (
            *(PYTHON, "-m", "celery", "-A", "benchmarks.peers.projects.celery_db.project"),
            *("worker", "--concurrency=2", *QUIET),
        ),
    ),
)
