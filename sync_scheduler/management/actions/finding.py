"""Values: something that was looked at, and what several looks share."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Literal

from sync_scheduler.models import Node

Level = Literal["ok", "warning", "error"]
# A node whose clock is further off the database's does not lead.
LARGEST_OFFSET_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    check: str
    message: str
    hint: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the rows say, read once."""

    now: dt.datetime
    nodes: list[Node]
    waiting: dict[str, int]
    has_schedules: bool

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be done at all: without work, silence is no fault."""
        return self.has_schedules or any(self.waiting.values())
