"""What databases do differently: their clock, their locks, their errors.

Nothing else in the package asks which database it talks to.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func, QuerySet, Value

from sync_scheduler import clock, conf

T = TypeVar("T")
Q = TypeVar("Q", bound=QuerySet[Any])

# MySQL: deadlock found, lock wait timeout. PostgreSQL: deadlock, lock not available, serialization.
_WORTH_REPEATING = {"1213", "1205", "40P01", "55P03", "40001"}
_READ_ONLY = {"25006"}
_REPEATS = 5


def alias() -> str:
    return conf.get().DATABASE


def connection() -> BaseDatabaseWrapper:
    return connections[alias()]


def speaks_arrays() -> bool:
    """Whether whole batches travel as one statement (PostgreSQL's UNNEST and RETURNING)."""
    return connection().vendor == "postgresql"


class DatabaseNow(Func):
    """The database's own clock, at this statement and not at the start of its transaction.

    SQLite lives in this process: its clock is ours.
    """

    output_field = DateTimeField()
    arity = 0

    def as_sql(  # type: ignore[override]  # the expression has no template to fill
        self, compiler: Any, connection: Any, **context: Any
    ) -> Any:
        return compiler.compile(Value(clock.now(), output_field=DateTimeField()))

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return "CLOCK_TIMESTAMP()", []

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return "UTC_TIMESTAMP(6)", []


def database_now() -> dt.datetime:
    """What time the database has. Leases and nodes are judged by this clock alone."""
    statements = {
        "postgresql": "SELECT CLOCK_TIMESTAMP()",
        "mysql": "SELECT UTC_TIMESTAMP(6)",
    }
    statement = statements.get(connection().vendor)
    if statement is None:
        return clock.now()
    with connection().cursor() as cursor:
        cursor.execute(statement)
        value: dt.datetime = cursor.fetchone()[0]
    return value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)


def locked(query: Q) -> Q:
    """The rows that nobody else holds, locked; others are passed over where that is possible."""
    features = connection().features
    if not features.has_select_for_update:
        return query  # SQLite: the transaction itself is the lock
    return query.select_for_update(skip_locked=features.has_select_for_update_skip_locked, of=())


@contextmanager
def short_transaction(seconds: float = 5.0) -> Iterator[None]:
    """A transaction that cannot outlive its welcome: a stopped process must not hold locks."""
    with transaction.atomic(using=alias()):
        if connection().vendor == "postgresql" and len(connection().savepoint_ids) == 0:
            ms = int(seconds * 1000)
            with connection().cursor() as cursor:
                cursor.execute(
                    f"SET LOCAL lock_timeout = {ms};"
                    f" SET LOCAL statement_timeout = {2 * ms};"
                    f" SET LOCAL idle_in_transaction_session_timeout = {ms}"
                )
        yield


def repeat_on_deadlock(action: Callable[[], T]) -> T:
    """Do it again when the database broke a deadlock at our cost; only outside a transaction."""
    for _ in range(_REPEATS - 1):
        try:
            return action()
        except OperationalError as error:
            if connection().in_atomic_block or not is_worth_repeating(error):
                raise
    return action()


def is_outage(error: Exception) -> bool:
    """Whether the database itself cannot be used now, so that trying again later makes sense.

    A server that was made read-only (a demoted primary) answers, but with an internal error.
    """
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return getattr(error.__cause__, "sqlstate", None) in _READ_ONLY


def is_worth_repeating(error: OperationalError) -> bool:
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or (cause.args[0] if cause and cause.args else "")
    return str(code) in _WORTH_REPEATING or "database is locked" in str(error)
