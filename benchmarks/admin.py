"""How long every page of the admin and every answer over HTTP takes on a long history.

    python -m benchmarks.admin [sqlite] [postgres] [mysql] [--runs N] [--schedules N]

Starts a server of its own, fills it with 1,000,000 runs of 2,000 schedules and opens every page
as a browser would. For each it prints the number of queries, the slowest of them and the time of
the whole page, as the median of three; then the plan of every query that took long. Without names
all three databases are measured. Exits with 1 if a page misses its target.

A database that was filled before is measured again with `--url`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django

from tests.services import mariadb_server, postgres_server

PROJECT = Path(__file__).parents[1]
DATABASES = ("sqlite", "postgres", "mysql")
TARGET_SECONDS = 0.5
# A query that takes longer is explained.
SLOW_SECONDS = 0.05
TIMES = 3


@dataclasses.dataclass(slots=True, kw_only=True)
class Query:
    sql: str
    params: Any
    seconds: float


@dataclasses.dataclass(slots=True, kw_only=True)
class Measured:
    page: str
    seconds: float
    queries: list[Query]

    @property
    def slowest(self) -> Query:
        return max(self.queries, key=lambda one: one.seconds)


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The address of an empty database; PostgreSQL and MariaDB with as much memory as is usual."""
    if kind == "postgres":
        settings = {"shared_buffers": "512MB", "work_mem": "4MB"}
        with postgres_server.start(settings=settings) as server:
            yield postgres_server.fresh_database(server)
    elif kind == "mysql":
        with mariadb_server.start("--innodb-buffer-pool-size=512M") as server:
            yield mariadb_server.fresh_database(server)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.sqlite3"


# What is asked for beside the plain page, by the name of its view.
ASKED: dict[str, tuple[str, ...]] = {
    "dashboard_changelist": ("range=1h", "range=24h", "range=7d"),
    "schedule_changelist": (
        *("page=30", "show=failing", "show=overdue", "show=paused", "show=code", "show=database"),
        "q=0007",
    ),
    "schedule_bulk": ("do=trigger&" + "&".join(f"id={n}" for n in range(1, 100)),),
    "run_changelist": (
        *("state=failed", "state=running", "state=waiting", "state=completed", "state=cancelled"),
        *("state=skipped", "within=1h", "within=7d", "schedule={schedule}", "q={run}", "q=nothing"),
        *("schedule=1&state=failed", "job=gone.job", "node=node-3", "before={old}"),
    ),
    "deadletter_changelist": ("within=7d", "show=closed"),
}
OVER_HTTP = (
    *("v1/status", "v1/schedules", "v1/schedules?limit=500", "v1/schedules?after=schedule-01500"),
    *("v1/schedules/{name}/history", "v1/schedules/{name}/history?before={old}", "v1/runs/{run}"),
    *("v1/events", "v1/events?schedule={name}", "v1/openapi.json", "metrics", "healthz"),
)
# Answered for as long as somebody listens.
STREAMS = frozenset({"dashboard_events"})


def addresses() -> dict[str, str]:
    """Every page by name. Of those that show a row: one with a long history."""
    from sync_scheduler.models import DeadLetter, Run
    from tests.integration.admin import views

    failed = Run.objects.filter(status="failed", schedule__isnull=False).order_by("-id")[:1].get()
    facts = {
        "run": str(failed.id),
        "schedule": failed.schedule_id,
        "name": failed.schedule_name,
        "old": str(Run.objects.order_by("id").values_list("id", flat=True)[60:61].get()),
    }
    letter = DeadLetter.objects.order_by("-id").values_list("id", flat=True)[:1].get()
    rows = {"run": failed.id, "schedule": failed.schedule_id, "deadletter": letter}
    found = {}
    for name, address in views.addresses(rows).items():
        if name in STREAMS:
            continue
        found[name] = address
        for query in ASKED.get(name, ()):
            found[f"{name} {query[:30]}"] = f"{address}?{query.format(**facts)}"
    stuck = views.addresses({"schedule": 1})["schedule_change"]
    asked = {path: f"/scheduler/{path.format(**facts)}" for path in OVER_HTTP}
    return {**found, "schedule_change, all skipped": stuck, **asked}


def measure(page: str, get: Callable[[str], Any], address: str) -> Measured | None:
    from django.db import connection

    from sync_scheduler.api import exposition

    found: list[Query] = []

    def timed(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            seconds = time.perf_counter() - start
            found.append(Query(sql=sql, params=params, seconds=seconds))

    def once() -> float:
        exposition._kept = (0.0, "")  # noqa: SLF001  # measured is making it
        found.clear()
        start = time.perf_counter()
        with connection.execute_wrapper(timed):
            answer = get(address)
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert answer.status_code == 200, f"{page}: {answer.status_code} {body[:500]!r}"
        return time.perf_counter() - start

    if get(address).status_code in {302, 403, 404}:
        return None  # Django has an address for it, the section has no such page
    seconds = statistics.median(once() for _ in range(TIMES))
    return Measured(page=page, seconds=seconds, queries=list(found))


def explain(query: Query) -> str:
    from django.db import connection

    word = {"postgresql": "EXPLAIN (ANALYZE, BUFFERS)", "mysql": "ANALYZE"}.get(
        connection.vendor, "EXPLAIN QUERY PLAN"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"{word} {query.sql}", query.params)
        return "\n".join("      " + " | ".join(map(str, row)) for row in cursor.fetchall())


def run(kind: str, *, runs: int, schedules: int, url: str, only: str) -> int:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DATABASE": kind,
        "TEST_DATABASE_URL": url,
    }
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client, override_settings

    from benchmarks import history
    from sync_scheduler.models import Run

    call_command("migrate", verbosity=0)
    if not Run.objects.exists():
        start = time.perf_counter()
        history.fill(runs=runs, schedules=schedules)
        print(f"  filled in {time.perf_counter() - start:.0f} s", flush=True)
    user, _ = User.objects.get_or_create(
        username="bench", defaults={"is_staff": True, "is_superuser": True}
    )
    missed, slow = 0, {}
    with override_settings(ROOT_URLCONF="tests.integration.api.urls", ALLOWED_HOSTS=["*"]):
        client = Client()
        client.force_login(user)
        print(f"  {'page':<50} {'queries':>7} {'slowest':>9} {'page':>8}")
        for page, address in addresses().items():
            if only not in page:
                continue
            found = measure(page, client.get, address)
            if found is None:
                continue
            is_late = found.seconds > TARGET_SECONDS
            missed += is_late
            mark = "  MISSED" if is_late else ""
            number, worst = len(found.queries), found.slowest.seconds if found.queries else 0
            print(
                f"  {page:<50} {number:>7} {worst:>7.3f} s {found.seconds:>6.3f} s{mark}",
                flush=True,
            )
            for query in found.queries:
                if query.seconds > SLOW_SECONDS:
                    slow.setdefault(query.sql, (page, query))
        for page, query in slow.values():
            print(f"\n  {page}: {query.seconds:.3f} s\n    {query.sql[:1500]}\n{explain(query)}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("databases", nargs="*", choices=[*DATABASES, []])
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--url", default="", help="a database that exists, of the one kind named")
    parser.add_argument("--only", default="", help="pages with this text in their name")
    given = parser.parse_args()
    kinds = given.databases or DATABASES
    if len(kinds) > 1:
        # Django knows one database in a process.
        rest = [f"--runs={given.runs}", f"--schedules={given.schedules}", f"--only={given.only}"]
        command = [sys.executable, "-m", "benchmarks.admin"]
        return max(subprocess.call([*command, kind, *rest], cwd=PROJECT) for kind in kinds)
    (kind,) = kinds
    print(f"{kind}: {given.runs:,} runs of {given.schedules:,} schedules", flush=True)
    options = {"runs": given.runs, "schedules": given.schedules, "only": given.only}
    if given.url:
        return min(run(kind, url=given.url, **options), 1)
    with database(kind) as url:
        return min(run(kind, url=url, **options), 1)


if __name__ == "__main__":
    sys.exit(main())
