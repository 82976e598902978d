"""Steps: sub-results of a Run. Stored where the handler's own writes go, so that inside an
atomic handler they commit or vanish with them."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from django.db import IntegrityError

from sync_scheduler import clock
from sync_scheduler.errors import LeaseLost
from sync_scheduler.jobs import codec
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Step
from sync_scheduler.store.locking import alias, connection, releasing_transaction

_LONGEST, _DIGITS = 200, 16


def recall(run_id: uuid.UUID, name: str) -> tuple[bool, Any]:
    rows = Step.objects.using(alias()).filter(run_id=run_id, name__in=(name, _spare(name)))
    found = dict(rows.values_list("name", "result"))
    for stored in (name, _spare(name)):
        # Compared here: MySQL finds "b" where "B" was asked for.
        if stored in found:
            # Without its result the step would be done a second time.
            return True, codec.unseal(found[stored], f"The result of step {name!r}")
    return False, None


def _spare(name: str) -> str:
    """What a step is stored under whose name the database takes for that of another one."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST - _DIGITS - 1]}:{digest}"


def remember(run_id: uuid.UUID, name: str, result: Any, *, attempt: int, token: int) -> None:
    """Store a result, if the Run is still this attempt's."""
    try:
        _store(run_id, name, result, attempt, token)
    except IntegrityError:
        # The same attempt cannot store a name twice; an earlier one that did so has lost its
        # lease meanwhile, and its result stands.
        if not recall(run_id, name)[0]:
            _store(run_id, _spare(name), result, attempt, token)


def _store(run_id: uuid.UUID, name: str, result: Any, attempt: int, token: int) -> None:
    with releasing_transaction():
        mine = Run.objects.filter(id=run_id, status=State.RUNNING, token=token)
        if connection().features.has_select_for_update and not connection().savepoint_ids:
            mine = mine.select_for_update()
        if not mine.exists():
            raise LeaseLost
        Step.objects.using(alias()).create(
            run_id=run_id, name=name, result=result, attempt=attempt, finished_at=clock.now()
        )
