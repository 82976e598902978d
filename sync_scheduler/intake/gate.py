"""Which limit a Run counts against: its job's, or that of a value of its input."""

from __future__ import annotations

import hashlib
from typing import Any

from sync_scheduler.jobs import codec, payload
from sync_scheduler.jobs.definition import Job

# A Run that waits names its gate behind "gate:", in 300 characters.
_LONGEST = 295


def gate_of(job: Job, stored: dict[str, Any]) -> str | None:
    """The name under which it is counted; None: its job has no limit."""
    if not job.policy.is_limited:
        return None
    if job.policy.concurrency_key is not None:
        stored = codec.unseal(stored, "The input")  # what counts together depends on it
    return _storable(f"{job.name}:{job.concurrency_value(stored)}")


def _storable(name: str) -> str:
    """The name as it is, or the beginning of it and a digest of the whole.

    Only what was made so is as long as it may be, so that nobody's own text is taken for it.
    """
    clean = payload.clean_text(name, 4 * len(name))
    if clean == name and len(name) < _LONGEST:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{clean[: _LONGEST - len(digest) - 1]}:{digest}"
