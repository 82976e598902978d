"""Indexes over the few rows that matter, on databases that can and on those that cannot.

PostgreSQL and SQLite index only the rows that satisfy a condition. MySQL and MariaDB cannot; there
the same name stands for a full index over `fallback`, or, where uniqueness depends on the
condition, for a unique index over a generated column that is NULL outside of it. An index that is
`only_partial` is left out there: over all rows it would cost more than it is worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.ddl_references import Statement
from django.db.models.sql.query import Query

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# What MySQL is asked to do where there is nothing to do.
_NO_STATEMENT = "DO 0"


class PartialIndex(models.Index):
    """An index with a condition that every supported database can make something of."""

    def __init__(
        self,
        *,
        fields: list[str],
        name: str,
        where: models.Q,
        fallback: list[str] | None = None,
        unique: bool = False,
        generated: str | None = None,
        only_partial: bool = False,
    ) -> None:
        # `condition` of the parent stays unset: Django's own checks would warn on MySQL about
        # an index that we do create there.
        super().__init__(fields=fields, name=name)
        if fallback is not None:
            # By these MySQL's schema editor tells whether a foreign key would lose its index; it
            # would make one where there is one, and `migrate sync_scheduler zero` would stop.
            self.fields_orders = models.Index(fields=fallback, name=name).fields_orders
        self.where = where
        self.fallback = fallback
        self.unique = unique
        self.generated = generated
        self.only_partial = only_partial

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        kwargs["where"] = self.where
        if self.fallback is not None:
            kwargs["fallback"] = self.fallback
        if self.unique:
            kwargs["unique"] = True
        if self.generated is not None:
            kwargs["generated"] = self.generated
        if self.only_partial:
            kwargs["only_partial"] = True
        return path, args, kwargs

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        if schema_editor.connection.features.supports_partial_indexes:
            return self._partial(model, schema_editor)
        if self.only_partial:
            return Statement(_NO_STATEMENT)
        if self.generated is not None:
            return self._over_generated_column(model, schema_editor)
        plain = models.Index(fields=self.fallback or self.fields, name=self.name)
        statement = plain.create_sql(model, schema_editor)
        if self.unique:
            statement.template = statement.template.replace("CREATE INDEX", "CREATE UNIQUE INDEX")
        return statement

    def remove_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, **kwargs: Any
    ) -> Any:
        if self.exists_on(schema_editor.connection):
            return super().remove_sql(model, schema_editor, **kwargs)
        return Statement(_NO_STATEMENT)

    def exists_on(self, connection: BaseDatabaseWrapper) -> bool:
        return not self.only_partial or connection.features.supports_partial_indexes

    def _partial(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor
    ) -> Statement:
        query = Query(model=model, alias_cols=False)
        where = query.build_where(self.where)
        compiler = query.get_compiler(connection=schema_editor.connection)
        sql, params = where.as_sql(compiler, schema_editor.connection)
        condition = sql % tuple(schema_editor.quote_value(p) for p in params)
        plain = models.Index(fields=self.fields, name=self.name)
        statement = plain.create_sql(model, schema_editor)
        if self.unique:
            statement.template = statement.template.replace("CREATE INDEX", "CREATE UNIQUE INDEX")
        statement.parts["condition"] = f" WHERE {condition}"  # type: ignore[assignment]
        return statement

    def _over_generated_column(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor
    ) -> Statement:
        quote = schema_editor.quote_name
        column = f"{self.name}_g"
        return Statement(
            "ALTER TABLE %(table)s ADD COLUMN %(column)s bigint"
            " GENERATED ALWAYS AS (%(expression)s) VIRTUAL,"
            " ADD UNIQUE INDEX %(name)s (%(column)s)",
            table=quote(model._meta.db_table),
            column=quote(column),
            expression=self.generated,
            name=quote(self.name),
        )
