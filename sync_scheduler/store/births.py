"""How a Run comes into being: inserted in the caller's transaction, once per key.

A web request waits for this, so a Run is stored with one short statement: columns that hold
their default stand in its text (or are left out, where that is NULL), only the others travel as
parameters. The text is the same for every Run of a kind, so that a connection which lasts can keep
its plan.
"""

from __future__ import annotations

import copy
import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, JSONField
from django.db.models.base import ModelState

from sync_scheduler.jobs import codec, payload
from sync_scheduler.models import Run
from sync_scheduler.models.payload_field import PayloadField
from sync_scheduler.store.locking import alias, connection, speaks_arrays
from sync_scheduler.store.portions import portions
from sync_scheduler.store.statements import write

# What differs between the runs of one submit_many; everything else is the template's.
_VARYING = ("id", "input", "gate")
_PORTABLE_BATCH = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """Lists of equal length, an entry per Run. `texts` are the inputs as JSON."""

    ids: Sequence[uuid.UUID]
    inputs: Sequence[dict[str, Any]]
    texts: list[str]
    gates: Sequence[str | None]


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
    names = _given(run.__dict__)
    values = _values(run.__dict__, names, using)
    is_keyed = run.dedupe is not None
    if is_keyed and using.vendor == "mysql":
        # MySQL's INSERT IGNORE would also hide values that do not fit.
        try:
            with transaction.atomic(using=alias()), using.cursor() as cursor:
                cursor.execute(_insert_one(using.vendor, names, ignores_conflicts=False), values)
        except IntegrityError:
            return False
    else:
        written = write(_insert_one(using.vendor, names, ignores_conflicts=is_keyed), values)
        if is_keyed and written == 0:
            return False
    run.__dict__["_state"] = _stored_in(alias())
    return True


def insert_many(template: Run, rows: Varying) -> list[Run]:
    """Store many Runs that differ only in input (and what follows from it); all or none."""
    if not rows.ids:
        return []
    if speaks_arrays():
        _insert_arrays(template, rows)
    else:
        with transaction.atomic(using=alias(), savepoint=False):
            _insert_portably(template, rows)
    return list(_stored(template, rows))


def by_key(dedupe: uuid.UUID) -> Run | None:
    return Run.objects.filter(dedupe=dedupe).first()


def holder_of(dedupe: uuid.UUID) -> Run | None:
    """The Run that has just kept another one from being stored under this key."""
    found = by_key(dedupe)
    if found is None and connection().vendor == "mysql" and connection().in_atomic_block:
        # With REPEATABLE READ a transaction looks at rows as they were when it began to look; only
        # what it locks it sees as it is.
        found = Run.objects.filter(dedupe=dedupe).select_for_update().first()
    return found


# -------------------------------------------------------------------------- one


def _given(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes that hold something else than their default."""
    return tuple([name for name, blank in _blank().items() if run[name] != blank])


def _values(run: Mapping[str, Any], names: Sequence[str], using: BaseDatabaseWrapper) -> list[Any]:
    """As the driver takes them. Django's own way there is long, and PostgreSQL needs none of it."""
    fields = _by_attribute()
    if using.vendor != "postgresql":
        return [fields[name].get_db_prep_save(run[name], using) for name in names]
    documents, sealed = _documents(), _sealed()
    return [
        payload.dump(codec.seal(run[name]) if name in sealed else run[name])
        if name in documents
        else run[name]
        for name in names
    ]


@lru_cache(maxsize=1024)
def _insert_one(vendor: str, names: tuple[str, ...], *, ignores_conflicts: bool) -> str:
    columns, places = _columns_and_places(names)
    suffix = " ON CONFLICT DO NOTHING" if ignores_conflicts else ""
    return f"INSERT INTO {_table()} ({columns}) VALUES {places}{suffix}"  # noqa: S608


def _columns_and_places(names: Sequence[str]) -> tuple[str, str]:
    """Where the values of these attributes go. A column that is left out is NULL."""
    quote, columns, places = connection().ops.quote_name, [], []
    for name, field in _by_attribute().items():
        place = "%s" if name in names else _literal(field)
        if place != "NULL":
            columns.append(quote(field.column or ""))
            places.append(place)
    return ", ".join(columns), f"({', '.join(places)})"


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


# -------------------------------------------------------------------------- many


def _insert_arrays(template: Run, rows: Varying) -> None:
    """One statement; whole lists travel as one text each."""
    using = connection()
    names = tuple(name for name in _given(template.__dict__) if name not in _VARYING)
    constants = _values(template.__dict__, names, using)
    ids = "{" + ",".join([one.hex for one in rows.ids]) + "}"
    inputs = "[" + ",".join(codec.seal_texts(rows.texts)) + "]"
    gates = list(rows.gates) if any(rows.gates) else []
    with using.cursor() as cursor:
        cursor.execute(_insert_many(names), [*constants, ids, inputs, gates])


@lru_cache(maxsize=1024)
def _insert_many(names: tuple[str, ...]) -> str:
    """Lists are read side by side; one that is shorter is filled up with NULL."""
    using = connection()
    columns, places = list(_VARYING), ["id", "input", "gate"]
    for name, field in _by_attribute().items():
        place = "%s" if name in names else _literal(field)
        if name not in _VARYING and place != "NULL":
            # Without the cast PostgreSQL would take every constant of a SELECT for text.
            columns.append(using.ops.quote_name(field.column or ""))
            places.append(f"{place}::{field.db_type(using)}")
    return (
        f"INSERT INTO {_table()} ({', '.join(columns)}) SELECT {', '.join(places)}"  # noqa: S608
        " FROM ROWS FROM (UNNEST(%s::uuid[]), JSONB_ARRAY_ELEMENTS(%s::jsonb),"
        " UNNEST(%s::text[])) AS given(id, input, gate)"
    )


def _insert_portably(template: Run, rows: Varying) -> None:
    """As many rows in one statement as the database takes, by their parameters and their length."""
    using, template_names = connection(), _given(template.__dict__)
    names = tuple(dict.fromkeys((*template_names, *_VARYING)))
    common = dict(zip(names, _values(template.__dict__, names, using), strict=True))
    fields = _by_attribute()
    columns, places = _columns_and_places(names)
    order = [name for name in fields if name in names]
    most = using.features.max_query_params or _PORTABLE_BATCH * len(order)
    size = max(1, min(_PORTABLE_BATCH, most // len(order)))
    for chunk in portions([len(text) for text in rows.texts], size):
        values: list[Any] = []
        for own in zip(rows.ids[chunk], rows.inputs[chunk], rows.gates[chunk], strict=True):
            common |= {
                name: fields[name].get_db_prep_save(value, using)
                for name, value in zip(_VARYING, own, strict=True)
            }
            values += [common[name] for name in order]
        count = len(values) // len(order)
        with using.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {_table()} ({columns}) VALUES {', '.join([places] * count)}",  # noqa: S608
                values,
            )


def _stored(template: Run, rows: Varying) -> Iterator[Run]:
    common, using = dict(template.__dict__), alias()
    meta = common["meta"]
    for own, given, gate in zip(rows.ids, rows.inputs, rows.gates, strict=True):
        run = Run.__new__(Run)
        run.__dict__ = {
            **common,
            "id": own,
            "input": given,
            "gate": gate,
            "meta": copy.deepcopy(meta) if meta else {},
            "_state": _stored_in(using),
        }
        yield run


def _stored_in(using: str) -> ModelState:
    state = ModelState()
    state.adding, state.db = False, using
    return state


# -------------------------------------------------------------------------- columns


@cache
def _by_attribute() -> dict[str, Field[Any, Any]]:
    return {field.attname: field for field in Run._meta.concrete_fields}


@cache
def _documents() -> frozenset[str]:
    return frozenset(n for n, field in _by_attribute().items() if isinstance(field, JSONField))


@cache
def _sealed() -> frozenset[str]:
    return frozenset(n for n, field in _by_attribute().items() if isinstance(field, PayloadField))


@cache
def _blank() -> dict[str, Any]:
    """The attributes of a Run on which nothing has been set."""
    defaults = {n: copy.copy(f.get_default()) for n, f in _by_attribute().items()}
    return defaults | {"id": None, "namespace": "", "job": ""}


def _table() -> str:
    return connection().ops.quote_name(Run._meta.db_table)
