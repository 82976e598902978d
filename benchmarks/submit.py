"""How fast Runs are submitted, beside what a bare program reaches in the same seconds.

    python -m benchmarks.submit [one] [many]

Starts its own PostgreSQL (commits are flushed) and Redis. The floor is a loop of plain psycopg
that stores the same rows, whose ids it was given beforehand, in a table with the same columns and
indexes. Both take turns, so that a machine which is busy for a moment is busy for both; what is
printed are medians of the rounds.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from benchmarks import worker
from benchmarks.verdict import Floor, at_least, close, note

ROUNDS = 7
ONE_BY_ONE, AT_ONCE, CALLS = 300, 1000, 4

# The reference machine: 3,700 bare single commits and 85,000 rows of a bare bulk insert a second.
REFERENCE_ONE, REFERENCE_MANY = 3_700, 85_000
TARGET_ONE, TARGET_MANY = 2_000, 40_000

_COLUMNS = """
  id, namespace, job, queue, priority, input, schedule_name, trigger, status, attempt,
  max_attempts, run_at, submitted_at, error, progress_message, node, reason, meta, token, crashes,
  suspect, depth
"""
_REST = """
  'default', 'tests.noop', 'default', 0, '{}', '', 'submit', 'submitted', 0, 1, now(), now(), '',
  '', '', '', '{}', 0, 0, false, 0
"""
BARE_ONE = f"INSERT INTO floor_run ({_COLUMNS}) VALUES (%s, {_REST})"
BARE_MANY = f"INSERT INTO floor_run ({_COLUMNS}) SELECT id, {_REST} FROM unnest(%s::uuid[]) id"


@contextmanager
def servers() -> Iterator[psycopg.Connection[Any]]:
    """A connection of the bare program; Django is set up beside it."""
    with worker.servers(), _bare_connection() as bare:
        bare.execute("CREATE TABLE floor_run (LIKE sync_scheduler_run INCLUDING ALL)")
        bare.execute("CREATE TABLE floor_short (id serial, a text, b timestamptz)")
        yield bare


def _bare_connection() -> psycopg.Connection[Any]:
    return psycopg.connect(os.environ["TEST_DATABASE_URL"], autocommit=True)


def _per_second(count: int, action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return count / (time.perf_counter() - begin)


def one(bare: psycopg.Connection[Any]) -> None:
    from sync_scheduler.models.identity import uuid7_many
    from tests.testapp import jobs

    ids = iter(uuid7_many((ROUNDS + 1) * ONE_BY_ONE))

    def short() -> None:
        for _ in range(ONE_BY_ONE):
            bare.execute("INSERT INTO floor_short (a, b) VALUES ('x', now())")

    def same() -> None:
        for _ in range(ONE_BY_ONE):
            bare.execute(BARE_ONE, [next(ids)])

    def ours() -> None:
        for _ in range(ONE_BY_ONE):
            jobs.noop.submit()

    print("Submitting one by one, each its own commit")
    shortest, floor, rate = _in_turns(ONE_BY_ONE, short, same, ours)
    note("bare commits of a short row", shortest, "/s")
    at_least("submit()", rate, "/s", TARGET_ONE, Floor(here=floor, reference=REFERENCE_ONE))


def many(bare: psycopg.Connection[Any]) -> None:
    from sync_scheduler.models.identity import uuid7_many
    from tests.testapp import jobs

    lots = iter([uuid7_many(AT_ONCE) for _ in range((ROUNDS + 1) * CALLS)])

    def same() -> None:
        for _ in range(CALLS):
            bare.execute(BARE_MANY, [next(lots)])

    def ours() -> None:
        for _ in range(CALLS):
            jobs.noop.submit_many([{}] * AT_ONCE)

    def with_input() -> None:
        for _ in range(CALLS):
            jobs.add.submit_many([{"a": n, "b": 2} for n in range(AT_ONCE)])

    print(f"Submitting {AT_ONCE:,} at once")
    floor, rate, filled = _in_turns(CALLS * AT_ONCE, same, ours, with_input)
    known = Floor(here=floor, reference=REFERENCE_MANY)
    at_least("submit_many()", rate, "/s", TARGET_MANY, known)
    note("submit_many() with two arguments each", filled, "/s")


def _in_turns(count: int, *actions: Callable[[], object]) -> list[float]:
    """Medians of how often a second each of them does what it does."""
    from sync_scheduler.coordination import announcer

    for action in actions:
        action()  # what is only done once is done now
    rounds = []
    for _ in range(ROUNDS):
        rounds.append([_per_second(count, action) for action in actions])
        announcer.flush(10)
    return [statistics.median(rates) for rates in zip(*rounds, strict=True)]


ALL = {"one": one, "many": many}


def main(names: list[str]) -> int:
    with servers() as bare:
        for name in names or ALL:
            ALL[name](bare)
    return close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
