"""How a person's edit of a schedule is stored: only if nobody else changed it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from sync_scheduler.models import Schedule
from sync_scheduler.store.locking import alias, connection


def edit(schedule_id: int, *, seen_version: int, values: Mapping[str, Any]) -> Schedule | None:
    """Write the values; None if the schedule is gone or is no longer as it was seen."""
    with transaction.atomic(using=alias()):
        query = Schedule.objects.filter(id=schedule_id)
        if connection().features.has_select_for_update:
            query = query.select_for_update()
        row = query.first()
        if row is None or row.version != seen_version:
            return None
        for name, value in values.items():
            setattr(row, name, value)
        row.save(using=alias())
        return row
