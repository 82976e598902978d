"""What the driver asks of a project, and two ways to count what it has stored."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

DATABASE_URL = "BENCH_DATABASE_URL"
REDIS_URL = "BENCH_REDIS_URL"

PYTHON = sys.executable
MANAGE = (PYTHON, "-m", "django")


def nothing() -> None:
    """For projects that have nothing to do here."""


def migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


@dataclass(frozen=True, kw_only=True)
class Project:
    """`submit` takes the job that does nothing, `submit_stamped` the one that notes its start."""

    submit: Callable[[], object]
    submit_stamped: Callable[[], object]
    finished: Callable[[], int]  # how many outcomes are stored, seen from outside
    workers: tuple[tuple[str, ...], ...]  # two worker processes, by one command or by two
    prepare: Callable[[], None] = migrate
    fill: Callable[[int], object] | None = None  # many at once, where there is a way
    settle: Callable[[], object] = nothing  # returns when all that was submitted can be worked on


@cache
def database() -> Any:
    """A connection of our own: what it counts has been committed."""
    import psycopg

    return psycopg.connect(os.environ[DATABASE_URL], autocommit=True)


@cache
def redis(number: int = 0) -> Any:
    import redis as client

    return client.Redis.from_url(redis_url(number))


def redis_url(number: int = 0) -> str:
    """Queues are kept in database 0, outcomes in 1, so that they can be counted apart."""
    return os.environ[REDIS_URL].rpartition("/")[0] + f"/{number}"


def rows(question: str) -> Callable[[], int]:
    return lambda: int(database().execute(question).fetchone()[0])


def bare_commits(count: int = 300) -> float:
    """Single commits of one short row per second: how fast the machine is at this very moment."""
    connection = database()
    connection.execute("CREATE TABLE IF NOT EXISTS bare (id serial, a text, b timestamptz)")
    begin = time.perf_counter()
    for _ in range(count):
        connection.execute("INSERT INTO bare (a, b) VALUES ('x', now())")
    return count / (time.perf_counter() - begin)
