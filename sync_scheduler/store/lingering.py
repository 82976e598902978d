"""Cancelled Runs whose handler is still at work.

A Run is cancelled at once, its handler may take its time. Until it has ended, the Run keeps its
place at a limit and before the next run of its schedule: it "waits" for its handler. It gives the
place up when its worker reports how the attempt ended, however late, or when its node is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from sync_scheduler.models import Run
from sync_scheduler.store import waiting
from sync_scheduler.store.claims import FACTS, Claim
from sync_scheduler.store.locking import releasing_transaction, repeat_on_deadlock

_BATCH = 500


def ended(claims: Sequence[Claim]) -> list[Claim]:
    """These handlers have ended; says which of them had been cancelled and made room just now.

    The caller promotes what waits for them, in the same transaction.
    """
    return [claim for claim in claims if _has_place(claim) and _give_up(claim)]


def _has_place(claim: Claim) -> bool:
    return claim.guard is not None or claim.gate is not None


def _give_up(claim: Claim) -> bool:
    row = Run.objects.filter(id=claim.id, token=claim.token, waiting_for=waiting.HANDLER)
    return bool(row.update(waiting_for=None))


def of_node(node: str) -> list[Claim]:
    """Whose handlers should be at work there."""
    rows = Run.objects.filter(waiting_for=waiting.HANDLER, node=node)
    return [Claim(*row) for row in rows.order_by("id").values_list(*FACTS)]


def nodes() -> set[str]:
    """Where such handlers should be at work."""
    found = Run.objects.filter(waiting_for=waiting.HANDLER).order_by()
    return set(found.values_list("node", flat=True))


def release(node: str, which: Q) -> list[waiting.ReadyRow]:
    """The node is lost, and the handlers of these with it; returns what may start instead."""
    rows = Run.objects.filter(which, waiting_for=waiting.HANDLER, node=node).order_by("id")
    promoted: list[waiting.ReadyRow] = []
    while True:
        claims = [Claim(*row) for row in rows.values_list(*FACTS)[:_BATCH]]
        if not claims:
            return promoted
        promoted += repeat_on_deadlock(lambda claims=claims: _release(claims))  # type: ignore[misc]


def _release(claims: Sequence[Claim]) -> list[waiting.ReadyRow]:
    with releasing_transaction():
        return waiting.promote_after([claim for claim in claims if _give_up(claim)])
