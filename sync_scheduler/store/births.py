"""How a Run comes into being: inserted in the caller's transaction, once per key."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Field
from django.db.models.base import ModelState

from sync_scheduler.jobs import payload
from sync_scheduler.models import Run
from sync_scheduler.store.locking import alias, connection, speaks_arrays

# What differs between the runs of one submit_many; everything else is the template's.
_VARYING = ("id", "input", "gate")
_PORTABLE_BATCH = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    id: uuid.UUID
    input: dict[str, Any]
    gate: str | None


def insert(run: Run) -> bool:
    """Store a new Run. False: its key is taken, nothing was written."""
    using = connection()
    values = [f.get_db_prep_save(getattr(run, f.attname), using) for f in _fields()]
    sql = _insert_one(using.vendor)
    if run.dedupe is None:
        with using.cursor() as cursor:
            cursor.execute(sql, values)
    elif using.features.supports_ignore_conflicts and using.vendor != "mysql":
        with using.cursor() as cursor:
            cursor.execute(sql + " ON CONFLICT DO NOTHING", values)
            if cursor.rowcount == 0:
                return False
    else:
        # MySQL's INSERT IGNORE would also hide values that do not fit.
        try:
            with transaction.atomic(using=alias()), using.cursor() as cursor:
                cursor.execute(sql, values)
        except IntegrityError:
            return False
    _mark_stored(run)
    return True


def insert_many(template: Run, rows: Sequence[Varying]) -> list[Run]:
    """Store many Runs that differ only in input (and what follows from it). One statement."""
    runs = [_like(template, row) for row in rows]
    if not runs:
        return runs
    if speaks_arrays():
        _insert_arrays(template, rows)
    else:
        Run.objects.bulk_create(runs, batch_size=_PORTABLE_BATCH)
    for run in runs:
        _mark_stored(run)
    return runs


def by_key(dedupe: uuid.UUID) -> Run | None:
    return Run.objects.filter(dedupe=dedupe).first()


def _insert_arrays(template: Run, rows: Sequence[Varying]) -> None:
    using = connection()
    constants = [
        f.get_db_prep_save(getattr(template, f.attname), using)
        for f in _fields()
        if f.name not in _VARYING
    ]
    arrays = [
        [row.id for row in rows],
        [payload.dump(row.input) for row in rows],
        [row.gate for row in rows],
    ]
    with using.cursor() as cursor:
        cursor.execute(_insert_many(), [*constants, *arrays])


@cache
def _fields() -> tuple[Field[Any, Any], ...]:
    return tuple(Run._meta.concrete_fields)


@cache
def _insert_one(vendor: str) -> str:
    quote = connection().ops.quote_name
    columns = ", ".join(quote(f.column) for f in _fields())
    places = ", ".join(["%s"] * len(_fields()))
    return f"INSERT INTO {quote(Run._meta.db_table)} ({columns}) VALUES ({places})"  # noqa: S608


@cache
def _insert_many() -> str:
    quote = connection().ops.quote_name
    constant = [f for f in _fields() if f.name not in _VARYING]
    columns = ", ".join(quote(name) for name in [*(f.column for f in constant), *_VARYING])
    # Without the casts PostgreSQL would take every constant of a SELECT for text.
    casts = ", ".join(f"%s::{f.db_type(connection())}" for f in constant)
    return (
        f"INSERT INTO {quote(Run._meta.db_table)} ({columns})"  # noqa: S608
        f" SELECT {casts}, u.id, u.input::jsonb, u.gate"
        " FROM UNNEST(%s::uuid[], %s::text[], %s::text[]) AS u(id, input, gate)"
    )


def _like(template: Run, row: Varying) -> Run:
    # Building a model instance the ordinary way costs more than storing it.
    run = Run.__new__(Run)
    run.__dict__.update(template.__dict__)
    run.__dict__.update(id=row.id, input=row.input, gate=row.gate, _state=ModelState())
    return run


def _mark_stored(run: Run) -> None:
    run._state.adding = False
    run._state.db = alias()
