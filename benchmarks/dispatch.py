"""How fast due slots become Runs, and what waiting for them costs.

    python -m benchmarks.dispatch [herd] [late] [idle] [scale]

Starts its own PostgreSQL and Redis and measures a real `runscheduler --no-work`. Without names
all four are measured. Exits with 1 if a target is missed.

Beside the herd stands its floor, measured in the same minute: a bare loop of psycopg which moves as
many rows of an equal table on and inserts as many rows into another, batch by batch, and decides
nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import django
import psutil
import psycopg

from benchmarks.verdict import Floor, at_most, close, note
from tests.services import postgres_server, redis_server
from tests.services.server import wait_until

if TYPE_CHECKING:
    from tests.faults.dispatch.cluster import Cluster, Member

MANY = 100_000
HERD = 10_000

# The reference machine's bare loop: 10,000 rows moved and inserted in 1.2 s.
REFERENCE_HERD = 1.2
BATCH = 200

BARE = """
    WITH due AS MATERIALIZED (
      SELECT id FROM floor_schedule
      WHERE namespace = 'default' AND enabled AND next_run_at <= %s
      ORDER BY next_run_at, id LIMIT %s
    ), moved AS (
      UPDATE floor_schedule s SET last_slot = s.next_run_at,
        next_run_at = s.next_run_at + INTERVAL '1 day'
      FROM due WHERE s.id = due.id RETURNING s.id, s.name, s.last_slot
    )
    INSERT INTO floor_run (id, namespace, job, queue, priority, input, key, dedupe, schedule_id,
      schedule_name, slot, trigger, status, attempt, max_attempts, run_at, submitted_at, error,
      progress_message, node, reason, meta, token, crashes, suspect, guard, epoch, depth)
    SELECT GEN_RANDOM_UUID(), 'default', 'tests.noop', 'default', 0, '{}', name || last_slot,
      GEN_RANDOM_UUID(), id, name, last_slot, 'slot', 'submitted', 0, 1, last_slot, NOW(), '', '',
      '', '', '{}', 0, 0, FALSE, id, 1, 0
    FROM moved
"""


@contextmanager
def site(**settings: str) -> Iterator[Cluster]:
    """Servers with the durability that people run: commits are flushed."""
    from tests.faults.dispatch.cluster import Cluster

    class Measured(Cluster):
        def __exit__(self, *failure: object) -> None:
            """Unlike in a test of faults there is nothing to audit."""
            for member in self.members:
                member.kill()

    durable = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server.start(settings=durable) as postgres,
        redis_server.start() as redis,
        Measured(
            postgres=postgres, redis=redis, folder=Path(folder), settings=dict(settings)
        ) as cluster,
    ):
        yield cluster


def make(cluster: Cluster, count: int, first: dt.datetime, prefix: str = "s") -> None:
    """So many schedules of every day, all due at `first`."""
    cluster.execute(
        """
        INSERT INTO sync_scheduler_schedule (
          namespace, name, job, input, rule, kind, expression, timezone, anchor_at, start_at,
          jitter_seconds, misfire, max_catch_up, overlap, enabled, meta, source, note, pause_note,
          paused_by, version, created_at, updated_at, next_run_at, failures, error)
        SELECT 'default', %s || n, 'tests.noop', '{}', 'Every day', 'interval', '86400', 'UTC', %s,
          %s, 0, 'skip', 100, 'skip', TRUE, '{}', 'api', '', '', '', 1, NOW(), NOW(), %s, 0, ''
        FROM GENERATE_SERIES(1, %s) n
        """,
        prefix,
        first,
        first,
        first,
        count,
    )
    cluster.execute("ANALYZE")


def now(cluster: Cluster) -> dt.datetime:
    found: dt.datetime = cluster.value("SELECT CLOCK_TIMESTAMP()")
    return found


def soon(cluster: Cluster, seconds: float) -> dt.datetime:
    at = now(cluster) + dt.timedelta(seconds=seconds)
    return at.replace(microsecond=0) + dt.timedelta(seconds=1)


def await_runs(cluster: Cluster, slot: dt.datetime, count: int) -> tuple[float, float]:
    """Seconds from the slot to the last Run, and from the first Run to the last."""
    question = "SELECT COUNT(*) FROM sync_scheduler_run WHERE slot = %s"
    wait_until(
        lambda: cluster.value(question, slot) >= count,
        seconds=120,
        what=f"{count} runs",
        every=0.5,
    )
    first, last = cluster.query(
        "SELECT MIN(submitted_at), MAX(submitted_at) FROM sync_scheduler_run WHERE slot = %s", slot
    )[0]
    return (last - slot).total_seconds(), (last - first).total_seconds()


def bare_herd(cluster: Cluster, slot: dt.datetime) -> float:
    """Seconds that a bare loop needs for the same rows in equal tables."""
    with psycopg.connect(cluster.url, autocommit=True) as bare:
        for name in ("schedule", "run"):
            bare.execute(f"CREATE TABLE floor_{name} (LIKE sync_scheduler_{name} INCLUDING ALL)")
        bare.execute("INSERT INTO floor_schedule SELECT * FROM sync_scheduler_schedule")
        bare.execute("UPDATE floor_schedule SET next_run_at = %s", [slot])
        bare.execute("VACUUM ANALYZE floor_schedule")
        begin = time.perf_counter()
        while bare.execute(BARE, [slot, BATCH]).rowcount == BATCH:
            pass
        return time.perf_counter() - begin


def started(cluster: Cluster) -> Member:
    member = cluster.start()
    cluster.await_leader()
    return member


def _cpu(pid: int) -> float:
    """CPU seconds of a process and its children."""
    total = 0.0
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        # A server's connection may end between the two questions.
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system
    return total


def herd() -> None:
    print(f"{HERD:,} schedules due in the same second")
    with site() as cluster:
        slot = soon(cluster, 15)
        make(cluster, HERD, slot)
        member = started(cluster)
        mine, theirs = _cpu(member.pid), _cpu(cluster.postgres.pid)
        late, took = await_runs(cluster, slot, HERD)
        # On a busy machine these say more than the clock does.
        note("CPU of the dispatcher", _cpu(member.pid) - mine, "s")
        note("CPU of PostgreSQL", _cpu(cluster.postgres.pid) - theirs, "s")
        member.end()
        floor = Floor(here=bare_herd(cluster, slot), reference=REFERENCE_HERD, is_time=True)
        at_most("from the first Run to the last", took, "s", 2, floor)
        at_most("the last one is late by", late, "s", 3, floor)


def late() -> None:
    seconds, count = 60, 20
    print(f"{count} schedules of every second, for {seconds} s")
    with site() as cluster:
        started(cluster)
        cluster.register_seconds(count, overlap="concurrent")
        time.sleep(seconds)
        rows = cluster.query(
            "SELECT EXTRACT(EPOCH FROM submitted_at - slot)::float8 FROM sync_scheduler_run"
            " WHERE slot > (SELECT MIN(slot) + INTERVAL '3 s' FROM sync_scheduler_run)"
        )
        delays = sorted(row[0] * 1000 for row in rows)
        note("slots measured", len(delays), "")
        note("late, median", delays[len(delays) // 2], "ms")
        at_most("late, p99", delays[int(len(delays) * 0.99)], "ms", 20)
        note("late, worst", delays[-1], "ms")


def idle() -> None:
    print(f"{MANY:,} schedules, none of them due")
    with site() as cluster:
        make(cluster, MANY, soon(cluster, 6 * 3600))
        began = time.monotonic()
        member = cluster.start()
        cluster.await_leader()
        up = psutil.Process(member.pid)
        note("from exec to the first term", time.monotonic() - began, "s")
        lines = member.log.read_text().splitlines()
        stamps = [line for line in lines if "node " in line or "begins term" in line]
        times = [dt.datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f") for line in stamps[:2]]  # noqa: DTZ007
        at_most("from node start to ticking", (times[1] - times[0]).total_seconds(), "s", 2)
        time.sleep(65)  # a minute's first pass of everything lies behind us
        cluster.execute("ALTER SYSTEM SET log_statement = 'all'")
        cluster.query("SELECT pg_reload_conf()")
        time.sleep(1)
        before, cpu = _statements(cluster), up.cpu_times()
        time.sleep(60)
        after, spent = _statements(cluster), up.cpu_times()
        at_most("statements in an idle minute", after - before, "", 60)
        used = spent.user + spent.system - cpu.user - cpu.system
        at_most("CPU in an idle minute", used, "s", 1)
        at_most("memory (RSS)", up.memory_info().rss / 2**20, "MB", 150)


def _statements(cluster: Cluster) -> int:
    log = cluster.postgres.log.read_text(errors="replace")
    return sum(
        1 for line in log.splitlines() if "LOG:  statement:" in line or "LOG:  execute" in line
    )


def scale() -> None:
    print("1,000 schedules due in the same second, among 1,000 and among 100,000")
    costs = []
    for others in (0, MANY - 1000):
        with site() as cluster:
            make(cluster, max(others, 1), soon(cluster, 6 * 3600), prefix="other-")
            slot = soon(cluster, 10)
            make(cluster, 1000, slot, prefix="due-")
            started(cluster)
            _, took = await_runs(cluster, slot, 1000)
            costs.append(took)
            note(f"per due schedule, among {others + 1000:,}", took * 1000, "us")
    at_most("times as much", costs[1] / costs[0], "x", 1.5)


MEASUREMENTS = {"herd": herd, "late": late, "idle": idle, "scale": scale}


def main(names: list[str]) -> int:
    # The cluster imports the models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    for name in names or list(MEASUREMENTS):
        MEASUREMENTS[name]()
    return close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
