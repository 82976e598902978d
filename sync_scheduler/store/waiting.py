"""Ready Runs that wait: for the run before them (guard) or for a limit to have room (gate).

While it waits, a Run names what it waits for and is out of the ready index, so that it costs
nothing and hides nobody. It is promoted inside the transaction that ends what it waited for; the
reconciler's `release_free` stands behind that.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

from django.db.models import Q, QuerySet

from sync_scheduler.lifecycle import State
from sync_scheduler.models import Gate, Run
from sync_scheduler.store.locking import (
    connection,
    locked,
    releasing_transaction,
    repeat_on_deadlock,
)

# What a cancelled Run waits for whose handler is still at work; see `store.lingering`.
HANDLER = "handler"
_FACTS = ("id", "queue", "priority", "run_at")
_SWEEP_LIMIT = 1000
_GUARD = "guard:"
_MOST_NAMES = 10_000
# One step into the index for each name, however many Runs wait for it; MySQL takes 1000 at most.
_NAMES_SQL = """
WITH RECURSIVE found(name, number) AS (
  SELECT (SELECT MIN(waiting_for) FROM sync_scheduler_run WHERE waiting_for > %s), 1
  UNION ALL
  SELECT (SELECT MIN(r.waiting_for) FROM sync_scheduler_run r WHERE r.waiting_for > found.name),
         number + 1
  FROM found WHERE name IS NOT NULL AND number < 500
)
SELECT name FROM found WHERE name IS NOT NULL
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ReadyRow:
    id: uuid.UUID
    queue: str
    priority: int
    run_at: dt.datetime


def guard_name(guard: int) -> str:
    return f"{_GUARD}{guard}"


def gate_name(gate: str) -> str:
    return f"gate:{gate}"


def held_guards(guards: Collection[int]) -> set[int | None]:
    """Those of these that a running Run holds, or a cancelled one whose handler is at work."""
    if not guards:
        return set()
    rows = Run.objects.filter(guard__in=guards).order_by()
    # In this order: a Run that is cancelled between the two is found by both.
    running = set(rows.filter(status=State.RUNNING).values_list("guard", flat=True))
    return running | set(rows.filter(waiting_for=HANDLER).values_list("guard", flat=True))


def holders(gate: str) -> int:
    """How many places of a limit are taken."""
    rows = Run.objects.filter(gate=gate).order_by()
    running = rows.filter(status=State.RUNNING).count()
    return running + rows.filter(waiting_for=HANDLER).count()


def gates_in_use(gates: Collection[str]) -> set[str | None]:
    """Those of these limits of which a place is taken, or waited for."""
    if not gates:
        return set()
    rows = Run.objects.filter(gate__in=gates).order_by()
    # In this order: a Run that is cancelled between the two is found by both.
    running = set(rows.filter(status=State.RUNNING).values_list("gate", flat=True))
    waited_for = [HANDLER, *(gate_name(gate) for gate in gates)]
    return running | set(rows.filter(waiting_for__in=waited_for).values_list("gate", flat=True))


def names_waited_for() -> list[str]:
    """What Runs wait for, of whatever namespace; the first so many."""
    names: list[str] = []
    with connection().cursor() as cursor:
        while len(names) < _MOST_NAMES:
            cursor.execute(_NAMES_SQL, [names[-1] if names else ""])
            page = [str(name) for (name,) in cursor.fetchall()]
            if not page:
                break
            names += page
    return [name for name in names if name != HANDLER]


def park_behind_guard(ids: Sequence[uuid.UUID]) -> int:
    """Let these Runs wait, as far as another run of their schedule holds their guard right now.

    The row that holds it is locked while we write: either its end comes first and we find nothing
    to wait for, or it comes after us and finds the waiting Run.
    """
    rows = Run.objects.filter(id__in=list(ids), guard__isnull=False).values_list("id", "guard")
    # Each in a transaction of its own: whoever holds one row while asking for another may meet
    # somebody who asks in the other order.
    return sum(
        repeat_on_deadlock(partial(_park, run_id, guard))
        for run_id, guard in list(rows)
        if guard is not None
    )


def _park(run_id: uuid.UUID, guard: int) -> int:
    with releasing_transaction():
        if not any(_locks(guard, how) for how in (Q(status=State.RUNNING), Q(waiting_for=HANDLER))):
            return 0
        return Run.objects.filter(
            id=run_id, status=State.SUBMITTED, waiting_for__isnull=True
        ).update(waiting_for=guard_name(guard))


def _locks(guard: int, how: Q) -> bool:
    holder = Run.objects.filter(how, guard=guard)
    if connection().features.has_select_for_update:
        holder = holder.select_for_update()
    return holder.values_list("id", flat=True).first() is not None


class Place(Protocol):
    """What a Run holds while it runs."""

    @property
    def guard(self) -> int | None: ...
    @property
    def gate(self) -> str | None: ...


def promote_after(ended: Iterable[Place]) -> list[ReadyRow]:
    """Let those go that waited for these. Call inside the transaction that ended them."""
    places = list(ended)
    return promote(
        guards=[place.guard for place in places if place.guard is not None],
        gates=[place.gate for place in places if place.gate is not None],
    )


def promote(*, guards: Sequence[int], gates: Sequence[str]) -> list[ReadyRow]:
    """Let the next one of each go. Call inside the transaction that made room."""
    _lock_gates(gates)
    wanted = Counter([guard_name(g) for g in guards] + [gate_name(g) for g in gates])
    promoted: list[ReadyRow] = []
    for name, count in sorted(wanted.items()):
        promoted += _release(name, count)
    return promoted


def _lock_gates(names: Sequence[str]) -> None:
    """Either who is at the gate now sees the room that was made, or we see who was put to wait."""
    if names and connection().features.has_select_for_update:
        gates = Gate.objects.filter(name__in=set(names)).order_by("name")
        list(gates.select_for_update().values_list("pk"))


def release_free() -> list[ReadyRow]:
    """Let go whatever waits for a guard that nothing holds, and one Run per gate.

    A gate's limit is known to the job's code, not to the row: a Run let go too early is parked
    again at its claim.
    """
    names = names_waited_for()
    guards = {name: int(name.removeprefix(_GUARD)) for name in names if name.startswith(_GUARD)}
    held = held_guards(set(guards.values()))
    free = [name for name in names if guards.get(name) not in held]
    if len(free) > _SWEEP_LIMIT:
        # Not always the first ones, or the others would never have their turn.
        free = random.sample(free, _SWEEP_LIMIT)
    released: list[ReadyRow] = []
    for name in free:
        released += repeat_on_deadlock(partial(_release_one, name))
    return released


def release_unlimited(jobs: Collection[str]) -> list[ReadyRow]:
    """Let go what waits for a limit that its job no longer has.

    Nothing that ends makes room at such a limit more often than one Run at a time.
    """
    # The name of a gate begins with that of its job.
    theirs = tuple(gate_name(f"{job}:") for job in jobs)
    names = [name for name in names_waited_for() if f"{name}:".startswith(theirs)]
    if not names:
        return []
    parked = Run.objects.filter(
        waiting_for__in=names, status=State.SUBMITTED, job__in=list(jobs)
    ).order_by("id")
    released: list[ReadyRow] = []
    while rows := repeat_on_deadlock(partial(_let_go, parked)):
        released += rows
    return released


def _let_go(parked: QuerySet[Run]) -> list[ReadyRow]:
    with releasing_transaction():
        rows = [ReadyRow(*row) for row in locked(parked).values_list(*_FACTS)[:_SWEEP_LIMIT]]
        parked.filter(id__in=[row.id for row in rows]).order_by().update(waiting_for=None)
        return rows


def _release_one(name: str) -> list[ReadyRow]:
    with releasing_transaction():
        return _release(name, 1)


def _release(name: str, count: int) -> list[ReadyRow]:
    waiting = Run.objects.filter(waiting_for=name, status=State.SUBMITTED)
    query = locked(waiting.order_by("-priority", "run_at", "id"))
    rows = [ReadyRow(*row) for row in query.values_list(*_FACTS)[:count]]
    if rows:
        Run.objects.filter(id__in=[row.id for row in rows], waiting_for=name).update(
            waiting_for=None
        )
    return rows
