"""How far a Run is: events of the parent process, never written by a handler's own transaction."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence

from sync_scheduler.lifecycle import State
from sync_scheduler.models import Event, Run
from sync_scheduler.store.locking import alias, releasing_transaction


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    run_id: uuid.UUID
    token: int
    attempt: int
    node: str
    at: dt.datetime
    progress: float | None
    message: str
    # An atomic handler's completion must not find its row changed underneath it.
    touch_run: bool


def record(entries: Sequence[Progress]) -> None:
    with releasing_transaction():
        Event.objects.using(alias()).bulk_create(
            Event(
                run_id=entry.run_id,
                at=entry.at,
                kind="heartbeat",
                node=entry.node,
                attempt=entry.attempt,
                data={"progress": entry.progress, "message": entry.message},
            )
            for entry in entries
        )
        for entry in sorted(entries, key=lambda one: one.run_id):
            if entry.touch_run:
                values: dict[str, object] = {"progress_message": entry.message[:500]}
                if entry.progress is not None:
                    values["progress"] = entry.progress
                Run.objects.filter(id=entry.run_id, status=State.RUNNING, token=entry.token).update(
                    **values
                )
