"""Statements through which rows stream, planned once instead of every time.

Planning the claim of one Run costs the database more than claiming it. A thread that says so keeps
its plans on its connection, but only where the connection leads straight to one session of the
server: a pooler such as PgBouncer hands every transaction to another session, which knows nothing
of plans that were kept elsewhere.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError

from sync_scheduler.store.locking import connection

try:
    from psycopg import Cursor
except ImportError:  # other databases do without it
    Cursor = None  # type: ignore[assignment,misc]

# No such plan, a plan of that name is there already, the table has changed under it.
_PLAN_IS_LOST = {"26000", "42P05", "0A000"}
# Nothing is kept because it was asked often; only what is said to be kept.
_NEVER_BY_ITSELF = 1_000_000_000

_thread = threading.local()
_is_direct: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


@contextmanager
def kept_plans() -> Iterator[None]:
    """Let this thread keep the plans of what it streams, on a connection of its own."""
    _thread.keeps = True
    try:
        yield
    finally:
        _thread.keeps = False


def stream(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement of PostgreSQL and return its rows. Every value is a text or a list."""
    using = connection()
    if getattr(_thread, "keeps", False) and not using.in_atomic_block:
        using.ensure_connection()
        raw: Any = using.connection
        try:
            # Callers know Django's errors, not the driver's.
            with using.wrap_database_errors:
                if _may_keep(raw):
                    return _execute_kept(raw, sql, values)
        except DatabaseError as error:
            if getattr(error.__cause__, "sqlstate", None) not in _PLAN_IS_LOST:
                raise
            # Refused before it did anything: it is safe to say it again in full.
            _is_direct[raw] = False
    with using.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _execute_kept(raw: Any, sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    # The driver's own cursor lets the server bind the values; Django's writes them into the text.
    with Cursor(raw) as cursor:
        cursor.execute(sql, values, prepare=True)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _may_keep(raw: Any) -> bool:
    known = _is_direct.get(raw)
    if known is None:
        known = _is_direct[raw] = _look(raw)
    return known


def _look(raw: Any) -> bool:
    """A pooler makes up the process id that a connection is told when it begins."""
    if Cursor is None or not hasattr(raw, "prepare_threshold"):
        return False
    ((pid,),) = raw.execute("SELECT PG_BACKEND_PID()").fetchall()
    if pid != raw.info.backend_pid:
        return False
    raw.prepare_threshold = raw.prepare_threshold or _NEVER_BY_ITSELF
    # A plan that is made while the table is small is kept when it has grown.
    raw.execute("SET enable_seqscan = off")
    return True
