"""Who is compared, how each is installed, and how it is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Keeper = Literal["database", "Redis", "nowhere"]
FAST, SLOW = 10_000, 2_000


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One way of running one product. Two ways of one product share an environment."""

    name: str
    title: str
    project: str
    keeps: Keeper  # where a finished job's outcome can be looked up afterwards
    setup: str  # in words, for the reader of the figures
    packages: tuple[str, ...] = ()  # empty: it is measured in the environment of this checkout
    python: tuple[int, int] = (3, 11)
    variables: Mapping[str, str] = field(default_factory=dict)
    jobs: int = SLOW  # enough for the measurement to last some seconds
    waits: int = 100
    pause: float = 0.2  # the longest; one that polls must not be met in step with its polls

    @property
    def is_ours(self) -> bool:
        return not self.packages

    @property
    def environment(self) -> str:
        return self.project.replace("_", "-")

    @property
    def distributions(self) -> tuple[str, ...]:
        """The packages whose versions say what was measured."""
        names = (package.partition("[")[0] for package in self.packages)
        return tuple(name for name in names if name not in {"psycopg", "redis"})


DRIVERS = ("psycopg[binary]", "redis")

OURS = Peer(
    name="sync-scheduler",
    title="sync_scheduler",
    project="ours",
    keeps="database",
    setup="Redis mode; `runscheduler --processes=2 --threads=1`, dispatcher included",
    variables={"BENCH_MODE": "redis"},
    jobs=20_000,
)

PEERS = (
    Peer(
        name="sync-scheduler-embedded",
        title="sync_scheduler without Redis",
        project="ours",
        keeps="database",
        setup="embedded mode, which polls every second; otherwise the same",
        variables={"BENCH_MODE": "embedded"},
        jobs=20_000,
        waits=40,
        pause=1.0,
    ),
    Peer(
        name="procrastinate",
        title="procrastinate",
        project="procrastinate",
        keeps="database",
        setup="two workers, coroutine jobs, concurrency 5, LISTEN/NOTIFY",
        packages=("procrastinate[django]", *DRIVERS),
    ),
    Peer(
        name="django-q2-orm",
        title="django-q2, ORM broker",
        project="django_q2",
        keeps="database",
        setup="one cluster with two workers, bulk 20, queue limit 100, all results kept",
        packages=("django-q2", *DRIVERS),
        variables={"BENCH_BROKER": "orm"},
    ),
    Peer(
        name="django-q2-redis",
        title="django-q2, Redis broker",
        project="django_q2",
        keeps="database",
        setup="as before, but the queue is in Redis; it forgets a job when it is fetched",
        packages=("django-q2", *DRIVERS),
        variables={"BENCH_BROKER": "redis"},
    ),
    Peer(
        name="celery-db",
        title="Celery, django-celery-results",
        project="celery_db",
        keeps="database",
        setup="prefork, concurrency 2, Redis broker, connections as Django and Celery open them",
        packages=("celery[redis]", "django-celery-results", *DRIVERS),
        variables={"BENCH_TUNED": "no"},
    ),
    Peer(
        name="celery-db-tuned",
        title="Celery, django-celery-results, tuned",
        project="celery_db",
        keeps="database",
        setup="as before, with connections that stay open, prefetch 64, no gossip and mingle",
        packages=("celery[redis]", "django-celery-results", *DRIVERS),
        variables={"BENCH_TUNED": "yes"},
    ),
    Peer(
        name="django-tasks-db",
        title="django-tasks-db",
        project="django_tasks_db",
        keeps="database",
        setup="two `db_worker`, polling every second when idle",
        packages=("django-tasks-db[compat]", *DRIVERS),
        waits=40,
        pause=1.0,
    ),
    Peer(
        name="dj-queue",
        title="dj-queue",
        project="dj_queue",
        keeps="database",
        setup="two worker processes with three threads each, LISTEN/NOTIFY",
        packages=("dj-queue[postgres]", *DRIVERS),
        python=(3, 12),
    ),
    Peer(
        name="django-ox",
        title="django-ox",
        project="django_ox",
        keeps="database",
        setup="`ox_worker --processes=2`, polling every second when idle",
        packages=("django-ox", *DRIVERS),
        python=(3, 12),
        waits=40,
        pause=1.0,
    ),
    Peer(
        name="celery-redis",
        title="Celery, results in Redis",
        project="celery_redis",
        keeps="Redis",
        setup="prefork, concurrency 2, prefetch 64, no gossip and mingle",
        packages=("celery[redis]", *DRIVERS),
        jobs=5_000,
    ),
    Peer(
        name="dramatiq-results",
        title="dramatiq with results",
        project="dramatiq",
        keeps="Redis",
        setup="two processes with eight threads each, results kept for ten minutes",
        packages=("dramatiq[redis]", *DRIVERS),
        variables={"BENCH_RESULTS": "yes"},
        jobs=FAST,
    ),
    Peer(
        name="dramatiq",
        title="dramatiq without results",
        project="dramatiq",
        keeps="nowhere",
        setup="as before; a finished job leaves no trace",
        packages=("dramatiq[redis]", *DRIVERS),
        variables={"BENCH_RESULTS": "no"},
        jobs=FAST,
    ),
    Peer(
        name="huey-process",
        title="huey, process workers",
        project="huey",
        keeps="Redis",
        setup="one consumer with two worker processes",
        packages=("huey", *DRIVERS),
        variables={"BENCH_WORKERS": "process"},
        jobs=FAST,
    ),
    Peer(
        name="huey-thread",
        title="huey, thread workers",
        project="huey",
        keeps="Redis",
        setup="two consumers with one worker thread each",
        packages=("huey", *DRIVERS),
        variables={"BENCH_WORKERS": "thread"},
        jobs=FAST,
    ),
)


def chosen(names: str) -> tuple[Peer, ...]:
    """The peers of a comma-separated list, in the catalogue's order; all if it is empty."""
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    known = {peer.name for peer in PEERS}
    unknown = wanted - known
    if unknown:
        raise ValueError(f"no such peer: {', '.join(sorted(unknown))} (there are {sorted(known)})")
    return tuple(peer for peer in PEERS if not wanted or peer.name in wanted)
