"""How an attempt ends: one conditional write for a whole batch of endings.

Each ending names the Run, the status `running` and the token that its claim was given. Whatever
no longer matches is not written: a zombie, a second completion and a completion that lost against
a cancel are all refused by the same rule.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F

from sync_scheduler import clock, lifecycle
from sync_scheduler.jobs import payload
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Attempt, DeadLetter, Run
from sync_scheduler.store import lingering, portions, waiting
from sync_scheduler.store.claims import Claim
from sync_scheduler.store.locking import (
    alias,
    releasing_transaction,
    repeat_on_deadlock,
    speaks_arrays,
)
from sync_scheduler.store.statements import stream

_TEXT_LIMIT = 500


class Ending(NamedTuple):
    """What becomes of a claimed Run. `status` submitted means: once more, at `run_at`.

    A tuple, because thousands of them are made every second.
    """

    claim: Claim
    node: str
    status: State
    outcome: str
    started_at: dt.datetime
    finished_at: dt.datetime
    # As it is to be stored: see `jobs.codec`.
    result: Any = None
    error: str = ""
    traceback: str = ""
    reason: str = ""
    run_at: dt.datetime | None = None
    # How many attempts are given back (negative: charged after all), and crashes counted.
    refund: int = 0
    crash: int = 0
    suspect: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is a success without a remark, as nearly all are."""
        return self.status is State.COMPLETED and not self.reason

    @property
    def needs_more(self) -> bool:
        """Whether other rows must change in the same transaction."""
        claim = self.claim
        return (
            claim.guard is not None or claim.gate is not None or self.status in lifecycle.FAILURES
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was written: `endings`, whose Runs are `accepted`."""

    accepted: frozenset[uuid.UUID]
    endings: Sequence[Ending] = ()
    promoted: tuple[waiting.ReadyRow, ...] = ()


def record(endings: Sequence[Ending]) -> Recorded:
    """Write all endings that are still ours to write; says which were."""
    if not endings:
        return Recorded(accepted=frozenset())
    # In id order, so that a node and the sweep that gave it up never wait for each other's rows.
    endings = sorted(endings, key=lambda ending: ending.claim.id.int)
    if not any(ending.needs_more for ending in endings) and speaks_arrays():
        accepted = repeat_on_deadlock(lambda: _write(endings))
        return Recorded(accepted=accepted, endings=_those(endings, accepted))

    def together() -> Recorded:
        with releasing_transaction():
            accepted = _write(endings)
            mine = _those(endings, accepted)
            _bury(mine)
            # What is refused may be the end of a handler that was cancelled and kept its place.
            late = [ending.claim for ending in endings if ending.claim.id not in accepted]
            promoted = waiting.promote_after(
                [*(ending.claim for ending in mine), *lingering.ended(late)]
            )
            return Recorded(accepted=accepted, endings=mine, promoted=tuple(promoted))

    return repeat_on_deadlock(together)


def _those(endings: Sequence[Ending], accepted: frozenset[uuid.UUID]) -> Sequence[Ending]:
    if len(accepted) == len(endings):
        return endings
    return [ending for ending in endings if ending.claim.id in accepted]


def _write(endings: Sequence[Ending]) -> frozenset[uuid.UUID]:
    if not speaks_arrays():
        return _write_portably(endings)
    if all(ending.is_plain for ending in endings):
        refused = stream(_SUCCEED_SQL, _columns(endings))
    else:
        document = payload.dump([_facts(ending) for ending in endings])
        refused = stream(_END_SQL, {"endings": document})
    mine = frozenset([ending.claim.id for ending in endings])
    return mine.difference([row[0] for row in refused]) if refused else mine


# Both statements answer with what they refused, which is nothing as a rule. Lists go as one text
# each: the driver would look at every element. A computed status fits no index over running rows,
# so that the Runs are found by their ids, as in `store.claims`.
_SUCCEED_SQL = """
WITH o AS (
  SELECT id, token, TO_TIMESTAMP(started) AS started_at, TO_TIMESTAMP(finished) AS finished_at,
         result::jsonb AS result
  FROM UNNEST(%(ids)s::uuid[], %(tokens)s::int[], %(started)s::float8[], %(finished)s::float8[],
              %(results)s::text[]) AS o(id, token, started, finished, result)
), ended AS (
  UPDATE sync_scheduler_run r
  SET status = 'completed', started_at = o.started_at, finished_at = o.finished_at,
      result = o.result, error = '', reason = '', suspect = false
  FROM o
  WHERE r.id = o.id AND r.status || '' = 'running' AND r.token = o.token
  RETURNING r.id, r.attempt, r.node, r.started_at, r.finished_at
), stored AS (
  INSERT INTO sync_scheduler_attempt
    (run_id, number, node, started_at, finished_at, outcome, error, traceback)
  SELECT id, attempt, node, started_at, finished_at, 'completed', '', '' FROM ended
)
SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM ended WHERE ended.id = o.id)
"""


def _columns(endings: Sequence[Ending]) -> dict[str, Any]:
    has_results = any(ending.result is not None for ending in endings)
    return {
        "ids": _array([e.claim.id.hex for e in endings]),
        "tokens": _array([str(e.claim.token) for e in endings]),
        "started": _array([str(e.started_at.timestamp()) for e in endings]),
        "finished": _array([str(e.finished_at.timestamp()) for e in endings]),
        "results": [None if e.result is None else payload.dump(e.result) for e in endings]
        if has_results
        else "{}",
    }


def _array(texts: list[str]) -> str:
    return "{" + ",".join(texts) + "}"


# One JSON document instead of an array per column: the driver looks at every element of an
# array, the database reads a document as fast.
_END_SQL = """
WITH o AS (
  SELECT id, token, COALESCE(status, 'completed') AS status,
         COALESCE(outcome, 'completed') AS outcome,
         TO_TIMESTAMP(started) AS started_at, TO_TIMESTAMP(finished) AS finished_at, result,
         COALESCE(error, '') AS error, COALESCE(traceback, '') AS traceback,
         COALESCE(reason, '') AS reason, TO_TIMESTAMP(run_at) AS run_at,
         COALESCE(refund, 0) AS refund, COALESCE(crash, 0) AS crash,
         COALESCE(suspect, false) AS suspect
  FROM JSONB_TO_RECORDSET(%(endings)s::jsonb) AS o(
    id uuid, token int, status text, outcome text, started float8, finished float8, result jsonb,
    error text, traceback text, reason text, run_at float8, refund int, crash int, suspect bool)
), ended AS (
  UPDATE sync_scheduler_run r
  SET status = o.status, started_at = o.started_at,
      finished_at = CASE WHEN o.status <> 'submitted' THEN o.finished_at END,
      result = o.result, error = o.error, reason = o.reason,
      run_at = COALESCE(o.run_at, r.run_at),
      attempt = r.attempt - o.refund, crashes = r.crashes + o.crash, suspect = o.suspect
  FROM o
  WHERE r.id = o.id AND r.status || '' = 'running' AND r.token = o.token
  RETURNING r.id, r.node, r.attempt + o.refund AS number, o.started_at, o.finished_at, o.outcome,
            o.error, o.traceback, o.run_at
), stored AS (
  INSERT INTO sync_scheduler_attempt
    (run_id, number, node, started_at, finished_at, outcome, error, traceback, retry_at)
  SELECT id, number, node, started_at, finished_at, outcome, error, traceback, run_at FROM ended
)
SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM ended WHERE ended.id = o.id)
"""


def _facts(ending: Ending) -> dict[str, Any]:
    """What the statement needs; a plain success says only that it is one."""
    facts: dict[str, Any] = {
        "id": ending.claim.id.hex,
        "token": ending.claim.token,
        "started": ending.started_at.timestamp(),
        "finished": ending.finished_at.timestamp(),
    }
    if ending.result is not None:
        facts["result"] = ending.result
    if ending.reason:
        facts["reason"] = ending.reason[:_TEXT_LIMIT]
    if ending.status is not State.COMPLETED:
        facts |= {
            "status": ending.status.value,
            "outcome": str(ending.outcome),
            "error": ending.error,
            "traceback": ending.traceback,
            "run_at": None if ending.run_at is None else ending.run_at.timestamp(),
            "refund": int(ending.refund),
            "crash": int(ending.crash),
            "suspect": ending.suspect,
        }
    return facts


def _write_portably(endings: Sequence[Ending]) -> frozenset[uuid.UUID]:
    accepted = []
    with transaction.atomic(using=alias()):
        # In id order, so that two nodes never wait for each other's rows.
        for ending in sorted(endings, key=lambda e: e.claim.id):
            changed = Run.objects.filter(
                id=ending.claim.id, status=State.RUNNING, token=ending.claim.token
            ).update(
                status=ending.status,
                started_at=ending.started_at,
                finished_at=None if ending.status is State.SUBMITTED else ending.finished_at,
                result=ending.result,
                error=ending.error,
                reason=ending.reason[:_TEXT_LIMIT],
                attempt=F("attempt") - int(ending.refund),
                crashes=F("crashes") + int(ending.crash),
                suspect=ending.suspect,
                **({} if ending.run_at is None else {"run_at": ending.run_at}),
            )
            if changed:
                accepted.append(ending)
        attempts = [
            Attempt(
                run_id=e.claim.id,
                number=e.claim.attempt,
                node=e.node,
                started_at=e.started_at,
                finished_at=e.finished_at,
                outcome=e.outcome,
                error=e.error,
                traceback=e.traceback,
                retry_at=e.run_at,
            )
            for e in accepted
        ]
        sizes = [len(e.error) + len(e.traceback) for e in accepted]
        portions.create(Attempt.objects.using(alias()), attempts, sizes)
    return frozenset(e.claim.id for e in accepted)


def _bury(endings: Sequence[Ending]) -> None:
    """Runs that ended in failure are kept where people look for them."""
    letters = [
        DeadLetter(
            kind=DeadLetter.Kind.RUN,
            run_id=e.claim.id,
            schedule_id=e.claim.schedule_id,
            schedule_name=e.claim.schedule_name,
            job=e.claim.job,
            slot=e.claim.slot,
            reason=(e.reason or e.error.strip().splitlines()[-1] if e.error else e.reason)[
                :_TEXT_LIMIT
            ],
            error=e.error,
            created_at=clock.now(),
        )
        for e in endings
        if e.status in lifecycle.FAILURES
    ]
    portions.create(DeadLetter.objects.all(), letters, [len(letter.error) for letter in letters])
