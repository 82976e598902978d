"""Statements that are said again and again, planned once instead of every time.

Planning the claim or the insert of one Run costs the database more than doing it. Plans are kept
on a connection, but only where it leads straight to one session of the server: a pooler such as
PgBouncer hands every transaction to another session, which knows nothing of plans that were kept
elsewhere. A worker's threads keep them from the start (`stream`); somebody else's connection, once
it has shown that it lives long enough to be worth it (`write`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

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
_tuned: weakref.WeakSet[Any] = weakref.WeakSet()
# How often a connection of somebody else has been written through.
_written: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_OFTEN = 5


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
        kept = _try_kept(using, sql, values, tunes=True)
        if kept is not None:
            return kept[1]
    with using.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def write(sql: str, values: Sequence[Any]) -> int:
    """Run a statement that returns no rows; how many it has written.

    Whoever looks at the statements of a connection, to log or to time them, sees every one.
    """
    using = connection()
    if using.vendor == "postgresql" and not (
        using.in_atomic_block or using.queries_logged or using.execute_wrappers
    ):
        # What a cursor of Django's does before anything else.
        using.close_if_health_check_failed()
        using.ensure_connection()
        if using.autocommit and _is_used_often(using.connection):
            kept = _try_kept(using, sql, values)
            if kept is not None:
                return kept[0]
    with using.cursor() as cursor:
        cursor.execute(sql, values)
        return int(cursor.rowcount)


def _is_used_often(raw: Any) -> bool:
    """A connection that is made anew for every request need not even be asked where it leads."""
    times = _written.get(raw, 0)
    if times < _OFTEN:
        _written[raw] = times + 1
    return times >= _OFTEN


def _try_kept(
    using: BaseDatabaseWrapper, sql: str, values: Any, *, tunes: bool = False
) -> tuple[int, list[tuple[Any, ...]]] | None:
    """How many rows, and the rows; None: nothing was done, and it is to be said in full."""
    raw: Any = using.connection
    try:
        # Callers know Django's errors, not the driver's.
        with using.wrap_database_errors:
            if _may_keep(raw, tunes):
                return _execute_kept(raw, sql, values)
    except DatabaseError as error:
        if getattr(error.__cause__, "sqlstate", None) not in _PLAN_IS_LOST:
            raise
        # Refused before it did anything: it is safe to say it again in full.
        _is_direct[raw] = False
    return None


def _execute_kept(raw: Any, sql: str, values: Any) -> tuple[int, list[tuple[Any, ...]]]:
    # The driver's own cursor lets the server bind the values; Django's writes them into the text.
    with Cursor(raw) as cursor:
        cursor.execute(sql, values, prepare=True)
        rows: list[tuple[Any, ...]] = [] if cursor.description is None else cursor.fetchall()
        return cursor.rowcount, rows


def _may_keep(raw: Any, tunes: bool) -> bool:
    known = _is_direct.get(raw)
    if known is None:
        known = _is_direct[raw] = _look(raw)
    if known and tunes and raw not in _tuned:
        # A plan that is made while the table is small is kept when it has grown.
        raw.execute("SET enable_seqscan = off")
        _tuned.add(raw)
    return known


def _look(raw: Any) -> bool:
    """A pooler makes up the process id that a connection is told when it begins."""
    if Cursor is None or not hasattr(raw, "prepare_threshold"):
        return False
    ((pid,),) = raw.execute("SELECT PG_BACKEND_PID()").fetchall()
    if pid != raw.info.backend_pid:
        return False
    raw.prepare_threshold = raw.prepare_threshold or _NEVER_BY_ITSELF
    return True
