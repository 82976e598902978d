"""Which limit a Run counts against: its job's, or that of a value of its input."""

from __future__ import annotations

import hashlib
from typing import Any

from sync_scheduler.jobs import codec, payload
from sync_scheduler.jobs.definition import Job
from sync_scheduler.jobs.redaction import redacted_text

# A Run that waits names its gate behind "gate:", in 300 characters.
_LONGEST = 295


def gate_of(job: Job, stored: dict[str, Any]) -> str | None:
    """The name under which it is counted; None: its job has no limit."""
    if not job.policy.is_limited:
        return None
    if job.policy.concurrency_key is not None:
        stored = codec.unseal(stored, "The input")  # what counts together depends on it
    value = job.concurrency_value(stored)
    if _tells_a_secret(job, stored, value):
        value = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return _storable(f"{job.name}:{value}")


def _tells_a_secret(job: Job, stored: dict[str, Any], value: str) -> bool:
    """What a Run waits for is shown; a value that must not be seen is told apart all the same."""
    secret = job.policy.sensitive
    if not secret or not value:
        return False
    return job.policy.concurrency_key in secret or redacted_text(job.name, stored, value) != value


def _storable(name: str) -> str:
    """The name as it is, or the beginning of it and a digest of the whole.

    Only what was made so is as long as it may be, so that nobody's own text is taken for it.
    """
    clean = payload.clean_text(name, 4 * len(name))
    if clean == name and len(name) < _LONGEST:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{clean[: _LONGEST - len(digest) - 1]}:{digest}"
