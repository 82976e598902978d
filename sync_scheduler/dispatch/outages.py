"""Why a slot was missed: who led at that time, or from when to when nobody did."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sync_scheduler.models import Term

_TERMS = 20


class Outages:
    """Reads the newest terms once, when first asked."""

    def __init__(self) -> None:
        self._terms: list[Term] | None = None

    def explain(self, slot: dt.datetime) -> Mapping[str, Any]:
        """What is known about the leadership at that slot; empty when it is too long ago."""
        if self._terms is None:
            self._terms = list(Term.objects.order_by("-epoch")[:_TERMS])
        led_again: dt.datetime | None = None
        for term in self._terms:
            if term.started_at <= slot:
                if term.ended_at is None or slot < term.ended_at:
                    return {"leader": term.holder}
                return _gap(term.ended_at, led_again, term.holder)
            led_again = term.started_at
        return {}


def _gap(start: dt.datetime, end: dt.datetime | None, holder: str) -> dict[str, Any]:
    gap = {"no_leader_from": start.isoformat(), "last_leader": holder}
    if end is not None:
        gap["no_leader_to"] = end.isoformat()
    return gap
