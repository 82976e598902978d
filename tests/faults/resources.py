"""I8: what the surviving processes hold is no more than they need, whatever has happened to them.

Connections of the database and of Redis, file descriptors, and ids in ready queues. All of it is
given a moment: a server notices a dead client, and a worker a stale id, a little later.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable

import psutil
from django.db import connection

from sync_scheduler import lifecycle
from sync_scheduler.coordination.client import UNREACHABLE, connect
from sync_scheduler.coordination.keys import Keys
from sync_scheduler.models import Run

# Threads of a parent that speak to the database: elector, dispatch, housekeeping, pulse, main,
# and one to spare for whoever is just being replaced.
PARENT_CONNECTIONS = 6
# Beside one per handler thread: the thread of async handlers, and one that is being replaced.
CHILD_EXTRA_CONNECTIONS = 2
# Files that come and go: a log being rotated, a script being read, a socket on its way out.
SPARE_DESCRIPTORS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survivor:
    """A node that still runs. `descriptors` is what its parent had open when it had started."""

    pid: int
    works: bool
    dispatches: bool
    threads: int = 4
    descriptors: int | None = None

    @property
    def is_stopped(self) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return True


def descriptors(pid: int) -> int | None:
    """What a process has open, network connections not counted."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return process.num_fds() - len(process.net_connections(kind="tcp"))
    return None


def nothing_leaks(survivors: Iterable[Survivor], database_ports: set[int]) -> list[str]:
    wrong = []
    held = 0
    for survivor in survivors:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(survivor.pid)
            family = parent.children(recursive=True)
            held += _connections(parent, database_ports)
            if (number := _connections(parent, database_ports)) > PARENT_CONNECTIONS:
                wrong.append(f"node {survivor.pid} holds {number} database connections")
            most = survivor.threads + CHILD_EXTRA_CONNECTIONS
            for child in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    held += (number := _connections(child, database_ports))
                    if number > most:
                        wrong.append(f"child {child.pid} holds {number} database connections")
            wrong += _too_many_descriptors(survivor, len(family))
    return wrong + _forgotten_sessions(held)


def _connections(process: psutil.Process, ports: set[int]) -> int:
    made = process.net_connections(kind="tcp")
    return len([one for one in made if getattr(one.raddr, "port", None) in ports])


def _too_many_descriptors(survivor: Survivor, children: int) -> list[str]:
    now = descriptors(survivor.pid)
    if survivor.descriptors is None or now is None:
        return []
    # One pipe to each child that has come since.
    most = survivor.descriptors + children + SPARE_DESCRIPTORS
    return [f"node {survivor.pid} has {now} descriptors open"] if now > most else []


def _forgotten_sessions(held: int) -> list[str]:
    """Sessions that the server keeps for nobody; only PostgreSQL can be asked who they are."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        sessions = int(cursor.fetchone()[0])
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%' AND state_change < NOW() - INTERVAL '10 s'"
        )
        idle = int(cursor.fetchone()[0])
    wrong = []
    if sessions > held:
        wrong.append(f"the server has {sessions} sessions for {held} connections of survivors")
    if idle:
        wrong.append(f"{idle} sessions are idle in a transaction")
    return wrong


def queues_are_bounded(url: str) -> list[str]:
    """No more ids in Redis than there are Runs which wait."""
    waiting = Run.objects.filter(status__in=lifecycle.ACTIVE).count()
    keys = Keys("default")
    try:
        # Of Sentinel and of a Cluster as well.
        with contextlib.closing(connect(url, timeout=2)) as client:
            names = client.smembers(keys.queues)
            held = sum(client.zcard(keys.ready(q)) + client.zcard(keys.later(q)) for q in names)
    except UNREACHABLE:
        return []  # a server that is away, or a key that a test has spoilt
    return [f"Redis holds {held} ids for {waiting} runs"] if held > waiting else []
