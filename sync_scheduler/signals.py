"""Signals for users, and the one way in which they are sent.

They are best effort: a receiver that raises is logged and changes nothing (A9). They are sent
after the fact is committed, in the process that brought it about.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger(__name__)

run_submitted = Signal()  # run
run_started = Signal()  # run_id, job, attempt, node
run_finished = Signal()  # run_id, job, status, attempt, node
run_retried = Signal()  # run_id, job, attempt, node, run_at, reason
schedule_registered = Signal()  # schedule, created, updated; or name with removed=True
slot_dispatched = Signal()  # schedule, slot, run_id
slot_skipped = Signal()  # schedule, slot, reason
dispatch_failed = Signal()  # schedule, slot, error, dead_lettered
trigger_submitted = Signal()  # schedule, run
trigger_rejected = Signal()  # schedule, reason
tick_failed = Signal()  # error
leader_changed = Signal()  # node, epoch, leading, reason


def notify(signal: Signal, sender: object, **facts: Any) -> None:
    """Send to every receiver; log those that raise. Costs nothing when nobody listens."""
    if not signal.receivers:
        return
    for receiver, answer in signal.send_robust(sender=sender, **facts):
        if isinstance(answer, Exception):
            logger.error("signal receiver %r raised", receiver, exc_info=answer)
