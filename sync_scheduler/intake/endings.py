"""Who is told that an attempt or a Run has ended: joiners, the log, and receivers of signals."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from sync_scheduler import signals
from sync_scheduler.coordination import joins
from sync_scheduler.lifecycle import FAILURES, State
from sync_scheduler.models import Run
from sync_scheduler.store.outcomes import Ending

logger = logging.getLogger(__name__)


def tell(endings: Sequence[Ending]) -> None:
    """After they have been recorded, whoever brought them about."""
    joins.ended([e.claim.id.hex for e in endings if e.status is not State.SUBMITTED])
    for e in endings:
        if e.status in FAILURES:
            _log_failure(e)
    if not (signals.run_finished.receivers or signals.run_retried.receivers):
        return
    for e in endings:
        claim = e.claim
        if e.status is not State.SUBMITTED:
            tell_finished(claim.id, claim.job, e.status, attempt=claim.attempt, node=e.node)
        else:
            signals.notify(
                signals.run_retried,
                Run,
                run_id=claim.id,
                job=claim.job,
                attempt=claim.attempt,
                node=e.node,
                run_at=e.run_at,
                reason=e.reason,
            )


def _log_failure(e: Ending) -> None:
    """Of the last attempt only: the others are tried again. The traceback is with the Run."""
    logger.warning(
        "Run %s of %s %s in attempt %d: %r",
        e.claim.id,
        e.claim.job,
        e.status.replace("_", " "),
        e.claim.attempt,
        next(iter(e.error.splitlines()), ""),
        extra={"event": "run_failed", "run": str(e.claim.id), "job": e.claim.job},
    )


def tell_finished(run_id: uuid.UUID, job: str, status: str, *, attempt: int, node: str) -> None:
    signals.notify(
        signals.run_finished,
        Run,
        run_id=run_id,
        job=job,
        status=State(status).value,
        attempt=attempt,
        node=node,
    )
