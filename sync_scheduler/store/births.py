"""How a Run comes into being: inserted in the caller's transaction, once per key.

A web request waits for this, so a Run is stored with one short statement: columns that hold
their default stand in its text, only the others travel as parameters.
"""

from __future__ import annotations

import copy
import dataclasses
import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Field
from django.db.models.base import ModelState

from sync_scheduler.models import Run
from sync_scheduler.store.locking import alias, connection, speaks_arrays

# What differs between the runs of one submit_many; everything else is the template's.
_VARYING = ("id", "input", "gate")
_PORTABLE_BATCH = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """`text` is `input` as JSON."""

    id: uuid.UUID
    input: dict[str, Any]
    text: str
    gate: str | None


def new(**values: Any) -> Run:
    """A Run that is not stored yet.

    Building a model the ordinary way costs as much as storing it.
    """
    run = Run.__new__(Run)
    run.__dict__.update(_blank())
    run.__dict__.update(values, _state=ModelState())
    for name in ("input", "meta"):
        if name not in values:
            run.__dict__[name] = {}
    return run


def insert(run: Run) -> bool:
    """Store a new Run. False: its key is taken, nothing was written."""
    using = connection()
    blank, given = _blank(), run.__dict__
    fields = tuple(f for f in _fields() if given[f.attname] != blank[f.attname])
    values = [f.get_db_prep_save(given[f.attname], using) for f in fields]
    sql = _insert_one(using.vendor, fields)
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
        _insert_document(template, rows)
    else:
        Run.objects.bulk_create(runs, batch_size=_PORTABLE_BATCH)
    for run in runs:
        _mark_stored(run)
    return runs


def by_key(dedupe: uuid.UUID) -> Run | None:
    return Run.objects.filter(dedupe=dedupe).first()


def _insert_document(template: Run, rows: Sequence[Varying]) -> None:
    using = connection()
    constants = [
        f.get_db_prep_save(getattr(template, f.attname), using)
        for f in _fields()
        if f.name not in _VARYING
    ]
    ids = "{" + ",".join([row.id.hex for row in rows]) + "}"
    inputs = "[" + ",".join([row.text for row in rows]) + "]"
    gates = [row.gate for row in rows] if any(row.gate for row in rows) else []
    with using.cursor() as cursor:
        cursor.execute(_insert_many(), [inputs, gates, *constants, ids])


@cache
def _fields() -> tuple[Field[Any, Any], ...]:
    return tuple(Run._meta.concrete_fields)


@cache
def _blank() -> dict[str, Any]:
    """The attributes of a Run on which nothing has been set."""
    defaults = {f.attname: copy.copy(f.get_default()) for f in _fields()}
    return defaults | {"id": None, "namespace": "", "job": ""}


@cache
def _insert_one(vendor: str, given: tuple[Field[Any, Any], ...]) -> str:
    quote = connection().ops.quote_name
    columns = ", ".join(quote(f.column or "") for f in _fields())
    places = ", ".join("%s" if f in given else _literal(f) for f in _fields())
    return f"INSERT INTO {quote(Run._meta.db_table)} ({columns}) VALUES ({places})"  # noqa: S608


def _literal(field: Field[Any, Any]) -> str:
    """A column's default as SQL; only ever a value from the model's own text."""
    value = _blank()[field.attname]
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return str(value)
    return f"'{'{}' if value == {} else value}'"


@cache
def _insert_many() -> str:
    quote = connection().ops.quote_name
    constant = [f for f in _fields() if f.name not in _VARYING]
    columns = ", ".join(quote(name) for name in [*(f.column or "" for f in constant), *_VARYING])
    # Without the casts PostgreSQL would take every constant of a SELECT for text.
    casts = ", ".join(f"%s::{f.db_type(connection())}" for f in constant)
    return (
        f"WITH input AS (SELECT value, ordinality FROM"  # noqa: S608
        " JSONB_ARRAY_ELEMENTS(%s::jsonb) WITH ORDINALITY),"
        " gate AS (SELECT g, ordinality"
        " FROM UNNEST(%s::text[]) WITH ORDINALITY AS g(g, ordinality))"
        f" INSERT INTO {quote(Run._meta.db_table)} ({columns})"
        f" SELECT {casts}, u.id, input.value, gate.g"
        " FROM UNNEST(%s::uuid[]) WITH ORDINALITY AS u(id, ordinality)"
        " JOIN input USING (ordinality) LEFT JOIN gate USING (ordinality)"
    )


def _like(template: Run, row: Varying) -> Run:
    run = Run.__new__(Run)
    run.__dict__.update(template.__dict__)
    run.__dict__.update(id=row.id, input=row.input, gate=row.gate, _state=ModelState())
    return run


def _mark_stored(run: Run) -> None:
    run._state.adding = False
    run._state.db = alias()
