"""What the figures were measured on, and the floor beneath them.

python -m benchmarks.peers.machine DATABASE_URL REDIS_URL    prints the floor, as JSON
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path

import psutil
import psycopg
import redis

ROUNDS = 1000


def facts(database: str, cache: str) -> dict[str, object]:
    with psycopg.connect(database) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    server = redis.Redis.from_url(cache)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgresql": row[0] if row else "unknown",
        "redis": server.info("server")["redis_version"],
        "redis_appendfsync": server.config_get("appendfsync")["appendfsync"],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def floor(database: str, cache: str) -> dict[str, float]:
    """Bare single commits of one short row, and bare round trips to Redis, by one process."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS floor (id serial, a text, b timestamptz)")
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            connection.execute("INSERT INTO floor (a, b) VALUES ('x', now())")
        commits = ROUNDS / (time.perf_counter() - begin)
        connection.execute("DROP TABLE floor")
    server = redis.Redis.from_url(cache)
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        server.ping()
    return {
        "commits_per_second": commits,
        "redis_round_trip_us": (time.perf_counter() - begin) / ROUNDS * 1_000_000,
    }


if __name__ == "__main__":
    print(json.dumps(floor(*sys.argv[1:])))
