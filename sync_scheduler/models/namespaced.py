"""Rows of one installation among several that share a database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, TypeVar

from django.db import models

from sync_scheduler import conf

M = TypeVar("M", bound=models.Model)


def current_namespace() -> str:
    return conf.get().NAMESPACE


class NamespacedManager(models.Manager[M]):
    """Sees only this installation's rows, and only in the database that holds them.

    A router that sends reads to a replica must not be asked: a row that has not arrived there
    yet would look as if it did not exist.
    """

    use_in_migrations = False

    def get_queryset(self) -> models.QuerySet[M]:
        settings = conf.get()
        query: models.QuerySet[M] = super().get_queryset()
        if self._db is None:
            query = query.using(settings.DATABASE)
        return query.filter(namespace=settings.NAMESPACE)


class Namespaced(models.Model):
    namespace = models.CharField(max_length=64, default=current_namespace, editable=False)

    class Meta:
        abstract = True

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: models.QuerySet[Self] | None = None,
    ) -> None:
        """From the database that holds the rows; Django would ask the router."""
        super().refresh_from_db(
            using=using or conf.get().DATABASE, fields=fields, from_queryset=from_queryset
        )
