"""PayloadField: JSON that is stored encoded where the site has a codec for it."""

from __future__ import annotations

from typing import Any

from django.db import models

from sync_scheduler.jobs import codec, payload


class PayloadField(models.JSONField):
    """The door through which the ORM stores and reads payloads.

    A value that cannot be decoded is read as its envelope, and is stored again as it was.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "encoder": payload.Encoder})

    def deconstruct(self) -> Any:
        # To the database, and so to migrations, it is a JSON column as any other.
        name, _, args, kwargs = super().deconstruct()
        del kwargs["encoder"]
        return name, "django.db.models.JSONField", args, kwargs

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if not hasattr(value, "as_sql"):
            value = codec.seal(value)
        return super().get_db_prep_save(value, connection)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return codec.read(super().from_db_value(value, expression, connection))
