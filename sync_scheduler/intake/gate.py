"""Which limit a Run counts against: its job's, or that of a value of its input."""

from __future__ import annotations

from typing import Any

from sync_scheduler.jobs import codec
from sync_scheduler.jobs.definition import Job


def gate_of(job: Job, stored: dict[str, Any]) -> str | None:
    """The name under which it is counted; None: its job has no limit."""
    if not job.policy.is_limited:
        return None
    if job.policy.concurrency_key is not None:
        stored = codec.unseal(stored, "The input")  # what counts together depends on it
    return f"{job.name}:{job.concurrency_value(stored)}"[:300]
