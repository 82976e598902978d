"""Every action leaves a trace: a log line, and for a user Django's history of the object."""

from __future__ import annotations

import logging

from sync_scheduler.api.access import Caller
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store import audit

logger = logging.getLogger(__name__)


def note(caller: Caller, row: Schedule | Run, message: str) -> None:
    # %r: a name with line breaks in it must not look like a second line of the log.
    logger.info("%r: %r by %r", str(row), message, caller.name, extra={"event": "http_action"})
    if caller.user is not None:
        audit.record(caller.user.pk, row, message)
