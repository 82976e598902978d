"""Limits across the cluster: how many of a job (or of a key) run at once, and how often.

A gate's row is locked while runs pass through it, so that counting and claiming are one step.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from django.db import DatabaseError, InterfaceError
from django.db.models import QuerySet

from sync_scheduler import conf
from sync_scheduler.jobs.limits import Allowance, RateLimit
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Gate, Run
from sync_scheduler.store.claims import Claim, take
from sync_scheduler.store.locking import (
    DatabaseNow,
    connection,
    database_now,
    is_outage,
    locked,
    releasing_transaction,
    repeat_on_deadlock,
)
from sync_scheduler.store.waiting import gate_name, held_guards, holders

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    concurrency: int | None
    rate: RateLimit | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    claims: tuple[Claim, ...]
    delayed: tuple[tuple[uuid.UUID, dt.datetime], ...]


def claim_through_gates(ids: Sequence[uuid.UUID], node: str, limits: Mapping[str, Limit]) -> Passed:
    """Claim those of these Runs that their limits let through; the others wait or are put off.

    `limits` is by job name. Runs of jobs that are not in it are left alone. What was claimed is
    always handed on: an error at one gate is raised only if nothing has passed another.
    """
    rows = (
        _ready(ids)
        .filter(gate__isnull=False, job__in=list(limits))
        .order_by("-priority", "run_at", "id")
        .values_list("id", "job", "gate", "guard")
    )
    by_gate: dict[str, list[tuple[uuid.UUID, str, int | None]]] = defaultdict(list)
    for run_id, job, gate, guard in rows:
        by_gate[str(gate)].append((run_id, job, guard))
    claims: list[Claim] = []
    delayed: list[tuple[uuid.UUID, dt.datetime]] = []
    for gate in sorted(by_gate):
        try:
            passed = repeat_on_deadlock(partial(_pass, gate, by_gate[gate], node, limits))
        except (DatabaseError, InterfaceError) as error:
            away = is_outage(error)
            if away and not claims:
                raise
            logger.exception("gate %s cannot be passed", gate, extra={"event": "gate_failed"})
            if away:
                break
            continue
        claims += passed.claims
        delayed += passed.delayed
    return Passed(claims=tuple(claims), delayed=tuple(delayed))


def assign(gates: Mapping[uuid.UUID, str]) -> None:
    """Let Runs that were submitted before their job had a limit count against it."""
    by_gate: dict[str, list[uuid.UUID]] = defaultdict(list)
    for run_id, gate in gates.items():
        by_gate[gate].append(run_id)
    for gate, ids in by_gate.items():
        ready = Run.objects.filter(id__in=ids, status=State.SUBMITTED, gate__isnull=True)
        repeat_on_deadlock(partial(ready.update, gate=gate))


def _ready(ids: Sequence[uuid.UUID]) -> QuerySet[Run]:
    return Run.objects.filter(
        id__in=list(ids),
        status=State.SUBMITTED,
        waiting_for__isnull=True,
        run_at__lte=DatabaseNow(),
    )


def _pass(
    name: str,
    runs: Sequence[tuple[uuid.UUID, str, int | None]],
    node: str,
    limits: Mapping[str, Limit],
) -> Passed:
    with releasing_transaction():
        gate = _locked_gate(name)
        # Looked at again behind the lock: who held it before us may have taken some of them.
        free = set(
            locked(_ready([run_id for run_id, *_ in runs]).order_by("id")).values_list(
                "id", flat=True
            )
        )
        still = [run for run in runs if run[0] in free]
        if not still:
            return Passed(claims=(), delayed=())
        return _through(gate, still, node, limits)


def _through(
    gate: Gate,
    runs: Sequence[tuple[uuid.UUID, str, int | None]],
    node: str,
    limits: Mapping[str, Limit],
) -> Passed:
    limit = limits[runs[0][1]]
    now = database_now()
    going: list[uuid.UUID] = []
    staying: list[uuid.UUID] = []
    delayed: list[tuple[uuid.UUID, dt.datetime]] = []
    room = len(runs)
    if limit.concurrency is not None:
        room = limit.concurrency - holders(gate.name)
    busy = held_guards({guard for *_, guard in runs if guard is not None})
    allowance = None if limit.rate is None else Allowance(limit.rate, gate.starts or (), now)
    for run_id, _, guard in runs:
        if guard is not None and guard in busy:
            continue  # parked behind its guard by the caller
        if len(going) >= room:
            staying.append(run_id)
        elif allowance is not None and not allowance.take():
            # One behind the other: together they would all come back for a single place.
            delayed.append((run_id, allowance.next_start()))
        else:
            going.append(run_id)
            if guard is not None:
                busy.add(guard)
    Run.objects.filter(id__in=staying, status=State.SUBMITTED).update(
        waiting_for=gate_name(gate.name)
    )
    for run_id, start in delayed:
        Run.objects.filter(id=run_id, status=State.SUBMITTED).update(run_at=start)
    if going and allowance is not None:
        Gate.objects.filter(pk=gate.pk).update(starts=allowance.starts)
    claims = take(going, node) if going else []
    return Passed(claims=tuple(claims), delayed=tuple(delayed))


def _locked_gate(name: str) -> Gate:
    gates = Gate.objects.all()
    if connection().features.has_select_for_update:
        gates = gates.select_for_update()
    gate = gates.filter(name=name).first()
    if gate is None:
        Gate.objects.bulk_create(
            [Gate(namespace=conf.get().NAMESPACE, name=name)], ignore_conflicts=True
        )
        gate = gates.get(name=name)
    return gate
