"""Which Run is being worked on here, so that what it submits knows where it came from."""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from typing import NamedTuple


class Ancestor(NamedTuple):
    """Made for every attempt and hardly ever asked: the id stays a text until then."""

    run: str
    depth: int

    @property
    def run_id(self) -> uuid.UUID:
        return uuid.UUID(self.run)


current: ContextVar[Ancestor | None] = ContextVar("sync_scheduler_run", default=None)
