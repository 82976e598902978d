"""Values: what was decided about a due schedule, and what came of it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sync_scheduler.lifecycle import State


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot and what is to become of it, unless the overlap policy says otherwise."""

    slot: dt.datetime
    run_at: dt.datetime
    status: State = State.SUBMITTED
    reason: str = ""
    error: str = ""
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What was decided about one due schedule.

    `capacity` is how many Runs of the schedule may be active at once; None: any number. What is
    beyond it becomes a skipped Run with the reason `overflow`. With `catches_up`, the slots take
    one place together: all of them run, one after the other, if there is room for the first.
    """

    schedule_id: int
    name: str
    seen_next_run_at: dt.datetime
    seen_last_slot: dt.datetime | None
    seen_version: int
    next_run_at: dt.datetime | None
    last_slot: dt.datetime | None
    slots: tuple[Slot, ...]
    job: str
    input: dict[str, Any]
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 1
    timeout_seconds: float | None = None
    lease_seconds: float | None = None
    gate: str | None = None
    capacity: int | None = None
    catches_up: bool = False
    overflow: str = ""

    @property
    def guard(self) -> int | None:
        return None if self.capacity is None else self.schedule_id


@dataclasses.dataclass(frozen=True, slots=True)
class Born:
    """A Run that was stored for a slot."""

    schedule_id: int
    id: uuid.UUID
    slot: dt.datetime
    status: str
    reason: str
    queue: str
    priority: int
    run_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Which schedules were moved on, and which Runs were born."""

    moved: frozenset[int]
    born: tuple[Born, ...]


def slot_key(name: str, slot: dt.datetime) -> str:
    """The key of a slot's Run: the same on every node, for ever."""
    return f"{name}:{_written(slot)}"


@lru_cache(maxsize=1024)
def _written(slot: dt.datetime) -> str:
    # The same instant again and again where many schedules are due together.
    utc = slot.astimezone(dt.UTC)
    fraction = f".{utc.microsecond:06d}" if utc.microsecond else ""
    return f"{utc:%Y-%m-%dT%H:%M:%S}{fraction}Z"
