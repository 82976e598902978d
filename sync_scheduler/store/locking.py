"""What databases do differently: their clock, their locks, their errors.

Nothing else in the package asks which database it talks to.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import DatabaseError, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func, QuerySet, Value

from sync_scheduler import clock, conf

T = TypeVar("T")
Q = TypeVar("Q", bound=QuerySet[Any])

# MySQL: deadlock found. PostgreSQL: deadlock, serialization. The database tells at once.
_DEADLOCKS = {"1213", "40P01", "40001"}
# MySQL: lock wait timeout. PostgreSQL: lock not available. It has waited before it told.
_WAITED_IN_VAIN = {"1205", "55P03"}
# PostgreSQL: a transaction of a server made read-only; a session that was ended for its silence.
_NOT_NOW = {"25006", "25P03"}
_MOST_TRIES, _MOST_TRIES_IN_VAIN = 10, 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2


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


def ids_along(query: QuerySet[Any, uuid.UUID], index: str) -> list[uuid.UUID]:
    """The ids of a query that is made for an index.

    MySQL and MariaDB are told which: they like to read another one in the order that is asked for,
    through everything that has ever finished.
    """
    if connection().vendor != "mysql":
        return list(query)
    try:
        sql, values = query.query.get_compiler(alias()).as_sql()
    except EmptyResultSet:
        return []  # nothing can be found, such as what is one of no jobs
    quote = connection().ops.quote_name
    table = f" FROM {quote(query.model._meta.db_table)}"
    with connection().cursor() as cursor:
        cursor.execute(sql.replace(table, f"{table} FORCE INDEX ({quote(index)})", 1), values)
        return [uuid.UUID(str(row[0])) for row in cursor.fetchall()]


@contextmanager
def releasing_transaction(*, waits_at_most: float | None = None) -> Iterator[None]:
    """A transaction whose locks go when its process stops in the middle: others need the rows.

    A server keeps the rows of a client that says nothing until the connection breaks, which takes
    hours. Here it ends the session after half of the leader's lease, so that whoever takes over
    finds the rows free; the process finds its connection gone when it wakes, and nothing written.
    Inside somebody else's transaction nothing changes: it is not ours to end. On SQLite nothing
    can be done, see "What is not promised" in the documentation.
    """
    using = connection()
    with _session_ends_when_idle(using), transaction.atomic(using=alias()):
        if using.vendor == "postgresql" and not using.savepoint_ids and using.commit_on_exit:
            # Whatever the project's connections are set to: who has waited for a lock must see
            # what was written meanwhile.
            limits = ["SET TRANSACTION ISOLATION LEVEL READ COMMITTED"]
            limits += [f"SET LOCAL idle_in_transaction_session_timeout = {_idle_seconds() * 1000}"]
            if waits_at_most is not None:
                ms = int(waits_at_most * 1000)
                limits += [f"SET LOCAL lock_timeout = {ms}"]
                limits += [f"SET LOCAL statement_timeout = {2 * ms}"]
            with using.cursor() as cursor:
                cursor.execute("; ".join(limits))
        yield


@contextmanager
def short_transaction(seconds: float = 5.0) -> Iterator[None]:
    """The same, and it does not wait long for the rows of others either (PostgreSQL)."""
    with releasing_transaction(waits_at_most=seconds):
        yield


def _idle_seconds() -> int:
    """Whole seconds, as MySQL wants them; no server counts in less than one."""
    return max(1, int(conf.get().LEADER_LEASE / 2))


@contextmanager
def _session_ends_when_idle(using: BaseDatabaseWrapper) -> Iterator[None]:
    """MySQL and MariaDB know no such limit for one transaction: it is set around it.

    MariaDB counts the time within a transaction only, MySQL all time between two statements.
    The server remembers the value before, so that this costs two statements and not three.
    """
    if using.vendor != "mysql" or using.in_atomic_block:
        yield
        return
    is_mariadb = getattr(using, "mysql_is_mariadb", False)
    timeout = "idle_transaction_timeout" if is_mariadb else "wait_timeout"
    with using.cursor() as cursor:
        cursor.execute(
            f"SET @sync_scheduler_idle = @@SESSION.{timeout}, SESSION {timeout} = {_idle_seconds()}"
        )
    session = using.connection
    try:
        yield
    finally:
        if using.connection is session:  # else it is closed already
            _restore(using, timeout)


def _restore(using: BaseDatabaseWrapper, timeout: str) -> None:
    try:
        with using.cursor() as cursor:
            cursor.execute(f"SET SESSION {timeout} = @sync_scheduler_idle")
    except (DatabaseError, InterfaceError):
        # What the transaction did is decided; only this session cannot be used any more.
        using.close()


def is_in_transaction(using: BaseDatabaseWrapper) -> bool:
    """Whether a transaction is open there, begun through Django or behind its back.

    Behind its back, MySQL and MariaDB do not tell.
    """
    raw: Any = using.connection
    if raw is None:
        return using.in_atomic_block
    if using.in_atomic_block or not using.autocommit:
        return True
    if using.vendor == "sqlite":
        return bool(raw.in_transaction)
    if using.vendor == "postgresql":
        return bool(raw.info.transaction_status)  # 0: idle
    return False


def repeat_on_deadlock(action: Callable[[], T]) -> T:
    """Do it again when the database broke a deadlock at our cost; only outside a transaction.

    After a random pause, longer each time: whoever comes again at once meets the same others.
    """
    tried = 0
    while True:
        tried += 1
        try:
            return action()
        except OperationalError as error:
            if connection().in_atomic_block or tried >= _most_tries(error):
                raise
            most = min(_FIRST_PAUSE * 2**tried, _LONGEST_PAUSE)
            clock.sleep(random.uniform(0.0, most))  # noqa: S311


def is_outage(error: Exception) -> bool:
    """Whether the database itself cannot be used now, so that trying again later makes sense.

    A server that was made read-only (a demoted primary) answers, but with an internal error; so
    does one that has ended a silent transaction.
    """
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return getattr(error.__cause__, "sqlstate", None) in _NOT_NOW


def _most_tries(error: OperationalError) -> int:
    cause = error.__cause__
    code = str(getattr(cause, "sqlstate", None) or (cause.args[0] if cause and cause.args else ""))
    if code in _DEADLOCKS:
        return _MOST_TRIES
    is_in_vain = code in _WAITED_IN_VAIN or "database is locked" in str(error)
    return _MOST_TRIES_IN_VAIN if is_in_vain else 1
