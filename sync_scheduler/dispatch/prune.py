"""History goes after its time, a little at a time."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

from sync_scheduler import conf
from sync_scheduler.jobs import registry
from sync_scheduler.store import pruning

# Open dead letters are kept this many times longer than Runs, for somebody to act on.
_OPEN_LETTERS = 10
_OLD_NODES = dt.timedelta(days=1)
# How often everything that grows slowly is looked at.
_SLOW = dt.timedelta(hours=1)


@dataclasses.dataclass(slots=True, kw_only=True)
class Pruner:
    """Remembers how far it has come, so that Runs which are kept longer are not read each time."""

    _done: dict[dt.timedelta | None, dt.datetime] = dataclasses.field(default_factory=dict)
    _slow_done: dt.datetime | None = None

    def prune(self, now: dt.datetime, may_go_on: Callable[[], bool] = lambda: True) -> int:
        """Delete what is too old; returns how many Runs went. Stops early when told to."""
        default = dt.timedelta(days=conf.get().RETENTION_DAYS)
        own = _own_retentions()
        named = frozenset(name for names in own.values() for name in names)
        gone = self._delete(None, pruning.Span(until=now - default, but=named), may_go_on)
        for retention, names in own.items():
            span = pruning.Span(until=now - retention, only=names)
            gone += self._delete(retention, span, may_go_on)
        if self._slow_done is None or now - self._slow_done >= _SLOW:
            while may_go_on():
                batch = pruning.delete_dead_letters(now - default, now - default * _OPEN_LETTERS)
                if batch < pruning.BATCH:
                    self._slow_done = now
                    break
            gate: int | None = 0
            while gate is not None and may_go_on():
                gate = pruning.delete_gates(now, gate)
            pruning.delete_nodes(now - _OLD_NODES)
            pruning.delete_terms(now - default)
        return gone

    def _delete(
        self,
        retention: dt.timedelta | None,
        span: pruning.Span,
        may_go_on: Callable[[], bool],
    ) -> int:
        # Nothing finishes in the past: what lies before the last span has been dealt with.
        span = dataclasses.replace(span, after=self._done.get(retention))
        gone = 0
        while may_go_on():
            batch = pruning.delete_runs(span)
            gone += batch
            if batch < pruning.BATCH:
                self._done[retention] = span.until
                break
        return gone


def _own_retentions() -> dict[dt.timedelta, frozenset[str]]:
    """Jobs that are kept for a time of their own, by that time."""
    found: dict[dt.timedelta, set[str]] = {}
    for job in registry.all_jobs():
        if job.policy.retention is not None:
            found.setdefault(job.policy.retention, set()).update({job.name, *job.aliases})
    return {retention: frozenset(names) for retention, names in found.items()}
