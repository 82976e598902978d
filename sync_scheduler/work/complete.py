"""From what a child reports to what becomes of the Run; and who is told."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence

from sync_scheduler import clock
from sync_scheduler.intake import ready
from sync_scheduler.intake.endings import tell
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import DEFAULT_BACKOFF
from sync_scheduler.lifecycle import Reason, State
from sync_scheduler.models import Attempt
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.outcomes import Ending, Recorded, record
from sync_scheduler.store.waiting import ReadyRow
from sync_scheduler.work.wire import Report

logger = logging.getLogger(__name__)

_OUTCOMES = Attempt.Outcome
_LONGEST_PAUSE = 366 * 86_400.0


def ending_of(claim: Claim, report: Report, node: str) -> Ending:
    """Decide: done, once more, or over."""
    done = Ending(
        claim=claim,
        node=node,
        status=State.COMPLETED,
        outcome=_OUTCOMES.COMPLETED,
        started_at=dt.datetime.fromtimestamp(report.started, dt.UTC),
        finished_at=dt.datetime.fromtimestamp(report.finished, dt.UTC),
        result=report.result,
        reason=report.error,
    )
    if report.kind == "done":
        return done
    if report.kind == "cancel":
        return done._replace(
            status=State.CANCELLED, outcome=_OUTCOMES.CANCELLED, error=report.error
        )
    return _failed(done, report)


def _failed(ending: Ending, report: Report) -> Ending:
    timed_out = report.kind == "timeout"
    lines = report.error.strip().splitlines() or [report.kind]
    failed = ending._replace(
        status=State.TIMED_OUT if timed_out else State.FAILED,
        outcome=_OUTCOMES.TIMED_OUT if timed_out else _OUTCOMES.FAILED,
        error=report.error,
        traceback=report.traceback,
        reason=Reason.TIMED_OUT.value if timed_out else lines[0][:500],
    )
    if ending.claim.tries >= ending.claim.max_attempts:
        return failed
    return failed._replace(
        status=State.SUBMITTED,
        outcome=_OUTCOMES.TIMED_OUT if timed_out else _OUTCOMES.RETRIED,
        run_at=clock.now() + dt.timedelta(seconds=_pause(ending.claim, report)),
    )


def _pause(claim: Claim, report: Report) -> float:
    if report.delay is not None:
        return max(0.0, report.delay)
    job = registry.find(claim.job)
    if job is None:
        return 0.0
    try:
        seconds = float(job.policy.backoff.delay(claim.tries))
        return min(max(0.0, seconds), _LONGEST_PAUSE)
    except Exception:  # a back-off of somebody's own must not stop the worker
        logger.exception("the back-off of %s raised", claim.job, extra={"event": "backoff_failed"})
        return DEFAULT_BACKOFF.delay(claim.tries)


def crashed(claim: Claim, node: str, why: str, *, guilty: bool, limit: int) -> Ending:
    """The process died under this Run. Guilty: nobody else can have been the cause.

    A suspect that crashes alone was the cause the first time too, when it was not charged.
    """
    now = clock.now()
    late = 1 if guilty and claim.suspect and claim.crashes == 0 else 0
    dead = guilty and claim.crashes + 1 + late >= limit
    return Ending(
        claim=claim,
        node=node,
        status=State.FAILED if dead else State.SUBMITTED,
        outcome=_OUTCOMES.CRASHED,
        started_at=claim.started_at,
        finished_at=now,
        error=why,
        reason=Reason.CRASHED,
        run_at=None if dead else now,
        refund=-late if guilty else 1,
        crash=1 + late if guilty else 0,
        suspect=True,
    )


def killed(claim: Claim, node: str) -> Ending:
    """The handler ran past its timeout and did not stop when it was told to."""
    report = Report(
        run=claim.id.hex,
        token=claim.token,
        kind="timeout",
        started=claim.started_at.timestamp(),
        finished=clock.now().timestamp(),
        error="The handler ran longer than its timeout and its process was killed.",
    )
    return ending_of(claim, report, node)


def given_back(claim: Claim, node: str, reason: str = "given back") -> Ending:
    """It did not get its turn; no attempt is charged."""
    now = clock.now()
    return Ending(
        claim=claim,
        node=node,
        status=State.SUBMITTED,
        outcome=_OUTCOMES.GIVEN_BACK,
        started_at=claim.started_at,
        finished_at=now,
        reason=reason,
        run_at=claim.run_at,
        refund=True,
        suspect=claim.suspect,
    )


def settle(endings: Sequence[Ending]) -> Recorded:
    """Record the endings, then tell whoever waits: workers, joiners, receivers."""
    recorded = record(endings)
    again = [
        ReadyRow(e.claim.id, e.claim.queue, e.claim.priority, e.run_at or e.claim.run_at)
        for e in recorded.endings
        if e.status is State.SUBMITTED
    ]
    if again or recorded.promoted:
        ready.announce([*again, *recorded.promoted])
    tell(recorded.endings)
    return recorded
