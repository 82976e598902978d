"""Who did what, in Django's own history of the object, where the admin is installed."""

from __future__ import annotations

from django.apps import apps
from django.db.models import Model

_CHANGE = 2  # django.contrib.admin.models.CHANGE, which cannot be imported without the admin


def record(user_id: int | str, row: Model, message: str) -> None:
    """Add an entry to the object's history; it can be read there and not changed."""
    if not apps.is_installed("django.contrib.admin"):
        return
    entry = apps.get_model("admin", "LogEntry")
    kind = apps.get_model("contenttypes", "ContentType")
    entry._default_manager.create(
        user_id=user_id,
        content_type=kind._default_manager.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=_CHANGE,
        change_message=message,
    )
