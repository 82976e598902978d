"""How a ready Run becomes somebody's: picked, then claimed by one conditional write.

The attempt number grows here, so that a Run which kills its worker has been counted. The token
grows with every claim and is never given back; every later write of this attempt names it.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import DatabaseError, IntegrityError, InterfaceError
from django.db.models import F

from sync_scheduler import conf, lifecycle
from sync_scheduler.jobs import payload
from sync_scheduler.models import Run
from sync_scheduler.models.run import ANY_PRIORITY
from sync_scheduler.store.locking import (
    DatabaseNow,
    ids_along,
    locked,
    releasing_transaction,
    repeat_on_deadlock,
    speaks_arrays,
)
from sync_scheduler.store.statements import stream
from sync_scheduler.store.waiting import HANDLER, held_guards

FACTS = (
    "id",
    "job",
    "input",
    "attempt",
    "token",
    "crashes",
    "suspect",
    "max_attempts",
    "timeout_seconds",
    "slot",
    "trigger",
    "schedule_id",
    "schedule_name",
    "guard",
    "gate",
    "depth",
    "queue",
    "priority",
    "run_at",
    "started_at",
)


class Claim(NamedTuple):
    """A Run that is this node's until its lease ends; field order is that of `FACTS`.

    A tuple, because thousands of them are made every second.
    """

    id: uuid.UUID
    job: str
    input: dict[str, Any]
    attempt: int
    token: int
    crashes: int
    suspect: bool
    max_attempts: int
    timeout_seconds: float | None
    slot: dt.datetime | None
    trigger: str
    schedule_id: int | None
    schedule_name: str
    guard: int | None
    gate: str | None
    depth: int
    queue: str
    priority: int
    run_at: dt.datetime
    started_at: dt.datetime

    @property
    def tries(self) -> int:
        """How often the handler itself has had its chance, this one included."""
        return self.attempt - self.crashes


def pick(
    queues: Sequence[str], jobs: Collection[str], count: int, paused: Collection[str] = ()
) -> list[uuid.UUID]:
    """Ids that are ready in the database, best first; the way without Redis."""
    ready = Run.objects.filter(
        status=lifecycle.State.SUBMITTED,
        waiting_for__isnull=True,
        run_at__lte=DatabaseNow(),
        job__in=list(jobs),
    )
    if paused:
        ready = ready.exclude(queue__in=list(paused))
    if not queues:
        best = ready.filter(ANY_PRIORITY).order_by("-priority", "run_at", "id")
        return ids_along(best.values_list("id", flat=True)[:count], "run_next")
    ready = ready.filter(queue__in=list(queues))
    # Of several queues no index has the order, and none is to be read through for the sake of it.
    first = "-priority" if len(queues) == 1 else (F("priority") * -1)
    return list(ready.order_by(first, "run_at", "id").values_list("id", flat=True)[:count])


def claim(ids: Sequence[uuid.UUID], node: str, jobs: Collection[str]) -> list[Claim]:
    """Make these Runs this node's, as far as they are still to be had and of these jobs.

    Runs that must not overlap with a running one are left alone; so is all but the first of
    those among themselves. Jobs with a limit are not to be among `jobs`: their Runs pass through
    `store.gates`. Only the code knows them: a Run may be older than its job's limit, or than the
    deploy that took the limit away, and then its gate says nothing.
    """
    if not ids:
        return []
    try:
        found = repeat_on_deadlock(lambda: _claim(ids, node, jobs))
    except IntegrityError:
        # Another node started a run of the same schedule between our look and our write.
        found = []
        for one in ids:
            try:
                found += repeat_on_deadlock(lambda one=one: _claim([one], node, jobs))  # type: ignore[misc]
            except IntegrityError:
                continue
            except (DatabaseError, InterfaceError):
                if not found:
                    raise
                break  # those are ours and must get to the caller; the next claim will tell it
    if len(found) < 2:
        return found
    by_id = {claimed.id: claimed for claimed in found}
    return [by_id.pop(run_id) for run_id in ids if run_id in by_id]


def _claim(ids: Sequence[uuid.UUID], node: str, jobs: Collection[str]) -> list[Claim]:
    if speaks_arrays():
        return _claim_arrays(ids, node, jobs)
    return _claim_portably(ids, node, jobs)


_TAKE = """
UPDATE sync_scheduler_run r
SET status = 'running', attempt = attempt + 1, token = token + 1, node = %(node)s,
    started_at = CLOCK_TIMESTAMP()
"""
_ANSWER = f"""
RETURNING r.id, r.job, r.input::text, {", ".join(f"r.{name}" for name in FACTS[3:-2])},
  EXTRACT(EPOCH FROM r.run_at)::float8, EXTRACT(EPOCH FROM r.started_at)::float8
"""
# The rows are found by their ids, whatever the planner believes of the table: it may take it for
# nearly empty, and then reads everything that is ready to find a hundred of them. A status that is
# computed fits none of the indexes over ready and running rows.
_CLAIM_SQL = f"""
WITH picked AS MATERIALIZED (
  SELECT id, guard FROM sync_scheduler_run
  WHERE id = ANY(%(ids)s::uuid[]) AND status || '' = 'submitted' AND waiting_for IS NULL
    AND namespace = %(namespace)s AND run_at <= CLOCK_TIMESTAMP()
    AND job = ANY(ARRAY(SELECT JSONB_ARRAY_ELEMENTS_TEXT(%(jobs)s::jsonb)))
  ORDER BY id FOR UPDATE SKIP LOCKED
), free AS (
  SELECT id FROM picked WHERE guard IS NULL
  UNION ALL
  (SELECT DISTINCT ON (guard) id FROM picked WHERE guard IS NOT NULL AND NOT EXISTS (
     SELECT 1 FROM sync_scheduler_run busy
     WHERE busy.guard = picked.guard AND busy.status = 'running') AND NOT EXISTS (
     SELECT 1 FROM sync_scheduler_run busy
     WHERE busy.waiting_for = '{HANDLER}' AND busy.guard = picked.guard)
   ORDER BY guard, id)
)
{_TAKE} FROM free WHERE r.id = free.id {_ANSWER}
"""  # noqa: S608  # nothing but names is put into the text
# What comes from idle comes alone. It need not be kept apart from others, and waiting for a lock
# that holds up nothing else is harmless.
_CLAIM_ONE_SQL = f"""
{_TAKE}
WHERE r.id = %(id)s AND r.status || '' = 'submitted' AND r.waiting_for IS NULL
  AND r.namespace = %(namespace)s AND r.run_at <= CLOCK_TIMESTAMP()
  AND r.job = ANY(ARRAY(SELECT JSONB_ARRAY_ELEMENTS_TEXT(%(jobs)s::jsonb)))
  AND (r.guard IS NULL OR NOT EXISTS (
    SELECT 1 FROM sync_scheduler_run busy
    WHERE busy.guard = r.guard AND busy.status = 'running') AND NOT EXISTS (
    SELECT 1 FROM sync_scheduler_run busy
    WHERE busy.waiting_for = '{HANDLER}' AND busy.guard = r.guard))
{_ANSWER}
"""  # noqa: S608


def _claim_arrays(ids: Sequence[uuid.UUID], node: str, jobs: Collection[str]) -> list[Claim]:
    # Lists go as one text each: the driver would look at every element.
    values = {"jobs": _as_text(frozenset(jobs)), "node": node, "namespace": conf.get().NAMESPACE}
    if len(ids) == 1:
        rows = stream(_CLAIM_ONE_SQL, {"id": ids[0].hex, **values})
    else:
        values["ids"] = "{" + ",".join([one.hex for one in ids]) + "}"
        rows = stream(_CLAIM_SQL, values)
    if not rows:
        return []
    # They were claimed within one statement: one moment is exact enough for all of them.
    started_at = dt.datetime.fromtimestamp(rows[0][-1], dt.UTC)
    return [_claim_of(row, started_at) for row in rows]


@lru_cache(maxsize=16)
def _as_text(jobs: frozenset[str]) -> str:
    return payload.dump(sorted(jobs))


def _claim_of(row: Sequence[Any], started_at: dt.datetime) -> Claim:
    # Django switches off the driver's own reading of JSON.
    run_id, job, text, *rest, run_at, _ = row
    given = {} if text == "{}" else json.loads(text)
    at = dt.datetime.fromtimestamp(run_at, dt.UTC)
    return Claim._make((run_id, job, given, *rest, at, started_at))


def _claim_portably(ids: Sequence[uuid.UUID], node: str, jobs: Collection[str]) -> list[Claim]:
    with releasing_transaction():
        ready = Run.objects.filter(
            id__in=list(ids),
            status=lifecycle.State.SUBMITTED,
            waiting_for__isnull=True,
            job__in=list(jobs),
            run_at__lte=DatabaseNow(),
        ).order_by("id")
        rows = list(locked(ready).values_list("id", "guard"))
        busy = held_guards({guard for _, guard in rows if guard is not None})
        free = []
        for run_id, guard in rows:
            if guard is not None:
                if guard in busy:
                    continue
                busy.add(guard)
            free.append(run_id)
        if not free:
            return []
        return take(free, node)


def take(ids: Sequence[uuid.UUID], node: str) -> list[Claim]:
    """The write itself, for rows that the caller has locked and found free."""
    Run.objects.filter(id__in=list(ids), status=lifecycle.State.SUBMITTED).update(
        status=lifecycle.State.RUNNING,
        attempt=F("attempt") + 1,
        token=F("token") + 1,
        node=node,
        started_at=DatabaseNow(),
    )
    claimed = Run.objects.filter(id__in=list(ids)).order_by("id").values_list(*FACTS)
    return [Claim(*row) for row in claimed]


def current(run_id: uuid.UUID, token: int) -> Claim | None:
    """The claim with this token, if it still holds."""
    row = (
        Run.objects.filter(id=run_id, token=token, status=lifecycle.State.RUNNING)
        .values_list(*FACTS)
        .first()
    )
    return None if row is None else Claim(*row)


def no_longer_held(held: Mapping[uuid.UUID, int]) -> list[uuid.UUID]:
    """Which of these claims (Run id to token) have ended behind their holder's back."""
    if not held:
        return []
    still = dict(
        Run.objects.filter(id__in=list(held), status=lifecycle.State.RUNNING).values_list(
            "id", "token"
        )
    )
    return [run_id for run_id, token in held.items() if still.get(run_id) != token]
