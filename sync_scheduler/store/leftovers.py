"""Ready Runs that a claim did not get, and what kept it from them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run
from sync_scheduler.store.locking import DatabaseNow


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    id: uuid.UUID
    job: str
    queue: str
    priority: int
    run_at: dt.datetime
    guard: int | None
    gate: str | None
    # What time it was, by the database's clock.
    seen_at: dt.datetime


def inputs(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """The input of these Runs, as it is stored."""
    return dict(Run.objects.filter(id__in=list(ids)).values_list("id", "input"))


def still_ready(ids: Sequence[uuid.UUID]) -> list[Leftover]:
    """Those of these Runs that nobody has and nothing holds back yet."""
    rows = Run.objects.filter(
        id__in=list(ids), status=State.SUBMITTED, waiting_for__isnull=True
    ).order_by("-priority", "run_at", "id")
    facts = ("id", "job", "queue", "priority", "run_at", "guard", "gate", "seen_at")
    return [Leftover(*row) for row in rows.annotate(seen_at=DatabaseNow()).values_list(*facts)]
