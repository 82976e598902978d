"""Quotas: how many Runs may wait in a queue before submits are refused.

Counted and not reserved: submits at the same moment do not see each other, so a quota may be
passed by as many as there are submitters. It is there to stop a flood, not to number places.
"""

from __future__ import annotations

from sync_scheduler import conf
from sync_scheduler.errors import QueueFull
from sync_scheduler.store import queues

# The name that stands for every queue without a quota of its own.
OTHERS = "*"


def refusal(queue: str, number: int = 1) -> QueueFull | None:
    """Why so many more Runs may not be submitted to the queue; None: they may."""
    quotas = conf.get().QUEUE_QUOTAS
    if not quotas:
        return None
    quota = quotas.get(queue) or quotas.get(OTHERS)
    if quota is None:
        return None
    if number <= quota and not queues.holds_more_than(queue, quota - number):
        return None
    what = "one more" if number == 1 else f"{number:,} more"
    return QueueFull(
        f"Queue {queue!r} has no room for {what}: at most {quota:,} Runs (QUEUE_QUOTAS) may wait"
        " in it; submit again when some have started."
    )
