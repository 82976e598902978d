"""Which Run is being worked on here, so that what it submits knows where it came from."""

from __future__ import annotations

import dataclasses
import uuid
from contextvars import ContextVar


@dataclasses.dataclass(frozen=True, slots=True)
class Ancestor:
    run_id: uuid.UUID
    depth: int


current: ContextVar[Ancestor | None] = ContextVar("sync_scheduler_run", default=None)
