"""The floor: what a bare program reaches with the same two servers, tables and processes.

    python -m benchmarks.floor POSTGRES_URL REDIS_URL rate BATCH RUNS
    python -m benchmarks.floor POSTGRES_URL REDIS_URL wait ROUNDS

`rate`: one process pops ids from Redis, claims them with one statement, hands them to two children
through socket pairs, and stores what they answer with one statement. `wait`: a submitter stores
one row and pushes its id, a blocking pop brings it to the process that claims it and hands it to a
child. No jobs, no checks, no retries, no recovery: nothing that does this work can be faster.

Prints JSON. The tables are copies of the real ones, with every index.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import redis

CHILDREN = 2
_READY = "floor:ready"
_FLUSH_SECONDS = 0.005

SCHEMA = """
DROP TABLE IF EXISTS bare_run, bare_attempt;
CREATE TABLE bare_run (LIKE sync_scheduler_run INCLUDING ALL);
CREATE TABLE bare_attempt (LIKE sync_scheduler_attempt INCLUDING ALL)
"""
SUBMIT = """
INSERT INTO bare_run (id, namespace, job, queue, priority, input, schedule_name, trigger, status,
  attempt, max_attempts, run_at, submitted_at, error, progress_message, node, reason, meta, token,
  crashes, suspect, depth)
SELECT one, 'default', 'tests.noop', 'default', 0, '{}', '', 'submit', 'submitted', 0, 1, NOW(),
  NOW(), '', '', '', '', '{}', 0, 0, FALSE, 0
FROM UNNEST(%s::uuid[]) one
"""
CLAIM = """
UPDATE bare_run SET status = 'running', attempt = attempt + 1, token = token + 1, node = 'bare',
  started_at = CLOCK_TIMESTAMP()
WHERE id = ANY(%s::uuid[]) AND status = 'submitted'
RETURNING id::text, job, input::text, token
"""
COMPLETE = """
WITH told AS (
  SELECT * FROM UNNEST(%s::uuid[], %s::int[], %s::float8[], %s::float8[]) AS t(id, token, s, f)
), ended AS (
  UPDATE bare_run r SET status = 'completed', started_at = TO_TIMESTAMP(s),
    finished_at = TO_TIMESTAMP(f)
  FROM told WHERE r.id = told.id AND r.status = 'running' AND r.token = told.token
  RETURNING r.id, r.attempt, r.started_at, r.finished_at
)
INSERT INTO bare_attempt (run_id, number, node, started_at, finished_at, outcome, error, traceback)
SELECT id, attempt, 'bare', started_at, finished_at, 'completed', '', '' FROM ended
"""


class Crew:
    """Child processes that run a handler for every line they get."""

    def __init__(self, count: int) -> None:
        self.socks: list[socket.socket] = []
        self._rest: dict[socket.socket, bytes] = {}
        for _ in range(count):
            ours, theirs = socket.socketpair()
            if os.fork() == 0:
                ours.close()
                for sock in self.socks:
                    sock.close()
                _run_handlers(theirs)
            theirs.close()
            self.socks.append(ours)
            self._rest[ours] = b""

    def hand_out(self, rows: list[tuple[str, str, str, int]]) -> None:
        for number, sock in enumerate(self.socks):
            share = [
                json.dumps([*row[:2], json.loads(row[2]), row[3]]) for row in rows[number::CHILDREN]
            ]
            if share:
                sock.sendall(("\n".join(share) + "\n").encode())

    def answers(self, seconds: float) -> list[list[Any]]:
        found: list[list[Any]] = []
        for sock in select.select(self.socks, [], [], seconds)[0]:
            *lines, self._rest[sock] = (self._rest[sock] + sock.recv(1 << 18)).split(b"\n")
            found += [json.loads(line) for line in lines]
        return found

    def close(self) -> None:
        for sock in self.socks:
            sock.close()


def _run_handlers(sock: socket.socket) -> None:
    handlers: dict[str, Callable[..., None]] = {"tests.noop": lambda: None}
    rest = b""
    while data := sock.recv(1 << 18):
        *lines, rest = (rest + data).split(b"\n")
        out = []
        for line in lines:
            run, job, given, token = json.loads(line)
            started = time.time()
            handlers[job](**given)
            out.append(json.dumps([run, token, started, time.time()]))
        sock.sendall(("\n".join(out) + "\n").encode())
    os._exit(0)


def _complete(db: psycopg.Connection[Any], ended: list[list[Any]]) -> None:
    db.execute(COMPLETE, [list(column) for column in zip(*ended, strict=True)])


def rate(dsn: str, cache_url: str, batch: int, runs: int) -> float:
    """Runs a second, all of them submitted before the clock starts."""
    crew = Crew(CHILDREN)
    cache = redis.Redis.from_url(cache_url)
    cache.delete(_READY)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(SCHEMA)
        for _ in range(0, runs, 1000):
            ids = [str(uuid.uuid4()) for _ in range(1000)]
            db.execute(SUBMIT, [ids])
            cache.zadd(_READY, dict.fromkeys(ids, 0))
        db.execute("VACUUM ANALYZE bare_run")
        begin = flushed = time.perf_counter()
        done, flying = 0, 0
        ended: list[list[Any]] = []
        while done < runs:
            if flying < 2 * batch and (popped := cache.zpopmin(_READY, batch)):
                rows = db.execute(CLAIM, [[member.decode() for member, _ in popped]]).fetchall()
                flying += len(rows)
                crew.hand_out(rows)
            ended += crew.answers(0.0005)
            if len(ended) >= batch or (ended and time.perf_counter() - flushed > _FLUSH_SECONDS):
                _complete(db, ended)
                done, flying = done + len(ended), flying - len(ended)
                ended, flushed = [], time.perf_counter()
        seconds = time.perf_counter() - begin
    crew.close()
    return runs / seconds


def wait(dsn: str, cache_url: str, rounds: int) -> tuple[float, float]:
    """Milliseconds from an idle submit to the handler's start: median and 99th percentile."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(SCHEMA)
    redis.Redis.from_url(cache_url).delete(_READY)
    ours, theirs = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        ours.close()
        _work_off(dsn, cache_url, theirs)
    theirs.close()
    cache, waits = redis.Redis.from_url(cache_url), []
    with psycopg.connect(dsn, autocommit=True) as db:
        for _ in range(rounds):
            begin = time.time()
            run = str(uuid.uuid4())
            db.execute(SUBMIT, [[run]])
            cache.zadd(_READY, {run: 0})
            started = float(ours.recv(100))
            waits.append((started - begin) * 1000)
            time.sleep(0.03)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    ranked = statistics.quantiles(waits[len(waits) // 10 :], n=100)
    return ranked[49], ranked[98]


def _work_off(dsn: str, cache_url: str, submitter: socket.socket) -> None:
    crew = Crew(CHILDREN)
    cache = redis.Redis.from_url(cache_url)
    with psycopg.connect(dsn, autocommit=True) as db:
        while True:
            popped = cache.bzpopmin(_READY, 1)
            if popped is None:
                continue
            crew.hand_out(db.execute(CLAIM, [[popped[1].decode()]]).fetchall())
            ended: list[list[Any]] = []
            while not ended:
                ended = crew.answers(1)
            _complete(db, ended)
            submitter.sendall(repr(ended[0][2]).encode())


def main(dsn: str, cache_url: str, what: str, *numbers: str) -> None:
    figures = (
        rate(dsn, cache_url, *map(int, numbers))
        if what == "rate"
        else wait(dsn, cache_url, *map(int, numbers))
    )
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
