"""How fast Runs are picked up and finished, with every outcome stored.

    python -m benchmarks.worker [throughput] [latency] [history] [queues]

Starts its own PostgreSQL (commits are flushed) and Redis (AOF every second) and a real
`runscheduler` with two child processes. Beside every figure stands the floor: what a bare program
reaches with the same two servers in this very run. Exits with 1 if a figure is neither what was
wanted nor as near to the floor as that is on the reference machine.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from benchmarks.verdict import Floor, at_least, at_most, close, note
from tests.services import postgres_server, redis_server
from tests.services.server import wait_until

PROJECT = Path(__file__).parents[1]
RUNS, BARE_RUNS, ROUNDS = 20_000, 10_000, 300
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

# Their ids grow with time, as those of real Runs do.
FINISHED = """
    INSERT INTO sync_scheduler_run (id, namespace, job, queue, priority, input,
      schedule_name, trigger, status, attempt, max_attempts, run_at, submitted_at,
      started_at, finished_at, error, progress_message, node, reason, meta, token, crashes,
      suspect, depth)
    SELECT (LPAD(TO_HEX((EXTRACT(EPOCH FROM t) * 1000)::bigint), 12, '0') || '7'
      || SUBSTR(MD5(t::text), 14))::uuid, 'default', 'tests.noop', 'default', 0, '{}', '', 'submit',
      'completed', 1, 1, t, t, t, t, '', '', 'n', '', '{}', 1, 0, false, 0
    FROM (SELECT NOW() - n * INTERVAL '0.5 s' AS t FROM GENERATE_SERIES(1, 1000000) n) x
"""

# The reference machine: what a bare program reached there, and what was wanted of us.
REFERENCE_RATE, TARGET_RATE = 14_800, 8_000
REFERENCE_P50, TARGET_P50 = 1.9, 2.5
REFERENCE_P99, TARGET_P99 = 2.5, 5.0


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


def bare(*what: object) -> Any:
    """A figure of `benchmarks.floor`, in a process without Django and threads."""
    servers = (os.environ["TEST_DATABASE_URL"], os.environ["SYNC_SCHEDULER_REDIS_URL"])
    command = [sys.executable, "-m", "benchmarks.floor", *servers, *map(str, what)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def is_all_done() -> bool:
    """Asked by way of the small indexes: who asks must not take part in what is measured."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM sync_scheduler_run"
            " WHERE status = 'submitted' AND waiting_for IS NULL)"
            " OR EXISTS (SELECT 1 FROM sync_scheduler_run WHERE status = 'running')"
        )
        return not cursor.fetchone()[0]


def clear() -> None:
    from django.db import connection

    from sync_scheduler.coordination import announcer, client

    announcer.flush(10)
    client.client().flushall()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE sync_scheduler_run, sync_scheduler_attempt")
        cursor.execute("VACUUM ANALYZE sync_scheduler_run")


def rate(queues: int = 1) -> float:
    """No-op runs a second, all of them submitted before the node starts."""
    from django.db import connection
    from django.db.models import Max, Min

    from sync_scheduler.coordination import announcer
    from sync_scheduler.models import Run
    from tests.testapp import jobs

    for number in range(queues):
        queue = "default" if queues == 1 else f"q{number}"
        for _ in range(max(1, RUNS // queues // 1000)):
            jobs.noop.using(queue=queue).submit_many([{}] * min(1000, RUNS // queues))
    announcer.flush(30)
    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")  # or that of the submits falls into what is measured
    begin = Run.objects.filter(status="submitted").aggregate(at=Min("submitted_at"))["at"]
    with node("--no-dispatch", "--threads=1"):
        wait_until(is_all_done, seconds=120, what="all done", every=0.3)
    facts = Run.objects.filter(submitted_at__gte=begin, status="completed").aggregate(
        first=Min("started_at"), last=Max("finished_at")
    )
    return RUNS / float((facts["last"] - facts["first"]).total_seconds())


def compare(name: str, plain: Callable[[], float], other: Callable[[], float]) -> None:
    """Two rates in turn, five times: the machine is not equally fast all the time."""
    pairs = [(plain(), other()) for _ in range(5)]
    alone, beside = (statistics.median(column) for column in zip(*pairs, strict=True))
    note("without", alone, "runs/s")
    note("with", beside, "runs/s")
    at_least(name, statistics.median(b / a for a, b in pairs) * 100, "%", 90)


def throughput() -> None:
    print("Throughput: no-op runs, each outcome stored")
    clear()
    for batch in (20, 50):
        note(f"floor, batches of {batch}", bare("rate", batch, BARE_RUNS), "runs/s")
    before = bare("rate", 100, BARE_RUNS)
    ours = rate()
    # Measured on both sides: a machine that is busy for a while is not a slow one.
    floor = statistics.mean([before, bare("rate", 100, BARE_RUNS)])
    known = Floor(here=floor, reference=REFERENCE_RATE)
    at_least("two children", ours, "runs/s", TARGET_RATE, known)


def latency() -> None:
    from sync_scheduler.models import Run
    from tests.testapp import jobs

    print("From idle: submit to handler start")
    clear()
    before = bare("wait", ROUNDS)
    with node("--no-dispatch"):
        jobs.noop.submit().join(30)
        for _ in range(ROUNDS):
            jobs.noop.submit()
            time.sleep(0.03)
        wait_until(is_all_done, seconds=30, what="all done")
    times = Run.objects.order_by("id").values_list("submitted_at", "started_at")[1:]
    waits = [(b - a).total_seconds() * 1000 for a, b in times if b is not None]
    ranked = statistics.quantiles(waits, n=100)
    p50, p99 = map(statistics.mean, zip(before, bare("wait", ROUNDS), strict=True))
    known = Floor(here=p50, reference=REFERENCE_P50, is_time=True)
    at_most("p50", ranked[49], "ms", TARGET_P50, known)
    known = Floor(here=p99, reference=REFERENCE_P99, is_time=True)
    at_most("p99", ranked[98], "ms", TARGET_P99, known)


def history() -> None:
    from django.db import connection

    print("Throughput with 1,000,000 finished runs")

    def fresh() -> float:
        clear()
        return rate()

    def full() -> float:
        clear()
        with connection.cursor() as cursor:
            cursor.execute(FINISHED)
            cursor.execute("VACUUM ANALYZE sync_scheduler_run")
        return rate()

    compare("with 1,000,000 finished, of an empty table's", fresh, full)


def queues() -> None:
    print("Throughput with 100 queues")

    def some(number: int) -> float:
        clear()
        return rate(queues=number)

    compare("with 100 queues, of one queue's", lambda: some(1), lambda: some(100))


ALL = {"throughput": throughput, "latency": latency, "history": history, "queues": queues}


def main(names: list[str]) -> int:
    with servers():
        for name in names or ALL:
            ALL[name]()
    return close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
