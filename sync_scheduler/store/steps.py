"""Steps: sub-results of a Run. Stored where the handler's own writes go, so that inside an
atomic handler they commit or vanish with them."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError

from sync_scheduler import clock
from sync_scheduler.errors import LeaseLost
from sync_scheduler.jobs import codec
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Step
from sync_scheduler.store.locking import alias, connection, releasing_transaction


def recall(run_id: uuid.UUID, name: str) -> tuple[bool, Any]:
    found = Step.objects.using(alias()).filter(run_id=run_id, name=name).values_list("result")[:1]
    if not found:
        return False, None
    # Without its result the step would be done a second time.
    return True, codec.unseal(found[0][0], f"The result of step {name!r}")


def remember(run_id: uuid.UUID, name: str, result: Any, *, attempt: int, token: int) -> None:
    """Store a result, if the Run is still this attempt's."""
    try:
        with releasing_transaction():
            mine = Run.objects.filter(id=run_id, status=State.RUNNING, token=token)
            if connection().features.has_select_for_update and not connection().savepoint_ids:
                mine = mine.select_for_update()
            if not mine.exists():
                raise LeaseLost
            Step.objects.using(alias()).create(
                run_id=run_id, name=name, result=result, attempt=attempt, finished_at=clock.now()
            )
    except IntegrityError:
        # The same attempt cannot store a name twice; an earlier one that did so has lost its
        # lease meanwhile, and its result stands.
        if not recall(run_id, name)[0]:
            raise
