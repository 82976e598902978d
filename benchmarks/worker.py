"""How fast Runs are submitted, picked up and finished, with every outcome stored.

    python -m benchmarks.worker [submit] [throughput] [latency] [history] [queues]

Starts its own PostgreSQL (commits are flushed) and Redis (AOF every second) and a real
`runscheduler` with two child processes. Exits with 1 if a target is missed. Beside every figure
stands the floor:
what a bare loop over the same two servers reaches in this very run, so that a slow or busy machine
is seen as such.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
import psycopg
import redis

from tests.services import postgres_server, redis_server
from tests.services.server import wait_until

PROJECT = Path(__file__).parents[1]
RUNS = 20_000
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

_missed: list[str] = []


def report(name: str, value: float, unit: str, *, least: float = 0, most: float = 0) -> None:
    met = value >= least and (not most or value <= most)
    wanted = f"(at least {least:,.0f})" if least else f"(at most {most:g})" if most else ""
    mark = "" if not wanted else "ok" if met else "MISSED"
    print(f"  {name:<48} {value:>12,.1f} {unit:<8} {wanted} {mark}", flush=True)
    if not met:
        _missed.append(name)


@contextmanager
def servers() -> Iterator[None]:
    with (
        postgres_server.start(settings=DURABLE) as postgres,
        redis_server.start(appendonly=True) as cache,
    ):
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_DATABASE": "postgres",
            "TEST_DATABASE_URL": postgres.url,
            "SYNC_SCHEDULER_REDIS_URL": cache.url,
        }
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield


@contextmanager
def node(*options: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "runscheduler", "--processes=2", *options],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def count(status: str) -> int:
    from sync_scheduler.models import Run

    return Run.objects.filter(status=status).count()


def clear() -> None:
    from django.db import connection

    from sync_scheduler.coordination import announcer, client

    announcer.flush(10)
    client.client().flushall()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE sync_scheduler_run, sync_scheduler_attempt")
        cursor.execute("VACUUM ANALYZE sync_scheduler_run")


def floor() -> None:
    """Single commits of one short row: what a submit cannot beat on this machine, now."""
    with psycopg.connect(os.environ["TEST_DATABASE_URL"], autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS floor (id serial, a text, b timestamptz)")
        begin = time.perf_counter()
        for _ in range(1000):
            db.execute("INSERT INTO floor (a, b) VALUES ('x', now())")
        report("floor: bare single commits", 1000 / (time.perf_counter() - begin), "/s")
    cache = redis.Redis.from_url(os.environ["SYNC_SCHEDULER_REDIS_URL"])
    begin = time.perf_counter()
    for _ in range(1000):
        cache.ping()
    report("floor: Redis round trip", (time.perf_counter() - begin) * 1000, "us")


def submit() -> None:
    from tests.testapp import jobs

    print("Submitting")
    clear()
    begin = time.perf_counter()
    for _ in range(2000):
        jobs.noop.submit()
    report(
        "one by one, each its own commit", 2000 / (time.perf_counter() - begin), "/s", least=2000
    )
    begin = time.perf_counter()
    for _ in range(20):
        jobs.noop.submit_many([{}] * 1000)
    rate = 20_000 / (time.perf_counter() - begin)
    report("submit_many of 1,000", rate, "/s", least=40_000)


def throughput(title: str = "Throughput", queues: int = 1, least: float = 8000) -> float:
    from django.db.models import Max, Min

    from sync_scheduler.coordination import announcer
    from sync_scheduler.models import Run
    from tests.testapp import jobs

    print(title)
    before = count("completed")
    for number in range(queues):
        queue = "default" if queues == 1 else f"q{number}"
        for _ in range(max(1, RUNS // queues // 1000)):
            jobs.noop.using(queue=queue).submit_many([{}] * min(1000, RUNS // queues))
    announcer.flush(30)
    newest = Run.objects.filter(status="submitted").order_by("id").values_list("id", flat=True)[0]
    with node("--no-dispatch", "--threads=1"):
        wait_until(lambda: count("submitted") == 0, seconds=120, what="all claimed", every=0.2)
        wait_until(lambda: count("running") == 0, seconds=60, what="all finished", every=0.2)
    facts = Run.objects.filter(id__gte=newest, status="completed").aggregate(
        first=Min("started_at"), last=Max("finished_at")
    )
    done = count("completed") - before
    rate = done / (facts["last"] - facts["first"]).total_seconds()
    report("no-op runs, outcome stored", rate, "runs/s", least=least)
    return rate


def latency() -> None:
    from sync_scheduler.models import Run
    from tests.testapp import jobs

    print("From idle: submit to handler start")
    clear()
    waits = []
    with node("--no-dispatch"):
        jobs.noop.submit().join(30)
        for _ in range(300):
            run = jobs.noop.submit()
            run.join(30)
            found = Run.objects.get(pk=run.pk)
            assert found.started_at is not None
            waits.append((found.started_at - found.submitted_at).total_seconds() * 1000)
            time.sleep(0.01)
    ranked = statistics.quantiles(waits, n=100)
    report("p50", ranked[49], "ms", most=2.5)
    report("p99", ranked[98], "ms", most=5)


def history() -> None:
    from django.db import connection

    clear()
    plain = throughput("Throughput with an empty table")
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO sync_scheduler_run (id, namespace, job, queue, priority, input,
              schedule_name, trigger, status, attempt, max_attempts, run_at, submitted_at,
              started_at, finished_at, error, progress_message, node, reason, meta, token, crashes,
              suspect, depth)
            SELECT gen_random_uuid(), 'default', 'tests.noop', 'default', 0, '{}', '', 'submit',
              'completed', 1, 1, t, t, t, t, '', '', 'n', '', '{}', 1, 0, false, 0
            FROM (SELECT NOW() - n * INTERVAL '0.5 s' AS t FROM GENERATE_SERIES(1, 1000000) n) x
            """
        )
        cursor.execute("VACUUM ANALYZE sync_scheduler_run")
    full = throughput("Throughput with 1,000,000 finished runs", least=0)
    report("as a part of the empty table's", full / plain * 100, "%", least=90)


def queues() -> None:
    clear()
    plain = throughput("Throughput with one queue")
    clear()
    many = throughput("Throughput with 100 queues", queues=100, least=0)
    report("as a part of one queue's", many / plain * 100, "%", least=90)


ALL = {
    "submit": submit,
    "throughput": lambda: (clear(), throughput()),
    "latency": latency,
    "history": history,
    "queues": queues,
}


def main(names: list[str]) -> int:
    with servers():
        floor()
        for name in names or ALL:
            ALL[name]()
    print("missed: " + ", ".join(_missed) if _missed else "all targets met")
    return 1 if _missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
