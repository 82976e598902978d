"""What must hold for the slots of schedules of every second, whatever has happened to leaders."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from itertools import pairwise

from tests.faults.dispatch.cluster import Cluster
from tests.faults.invariants import STATEMENT_SECONDS


def assert_every_second_once(cluster: Cluster, *, schedules: int, at_least: int) -> None:
    """No slot lost (I1), none twice (I2), no Run of a superseded epoch (I7)."""
    rows = cluster.query(
        "SELECT schedule_name, slot, status, reason FROM sync_scheduler_run WHERE trigger = 'slot'"
    )
    counts = Counter((name, slot) for name, slot, *_ in rows)
    twice = [key for key, number in counts.items() if number > 1]
    assert not twice, f"dispatched more than once: {twice[:5]}"
    by_name = defaultdict(list)
    for name, slot, *_ in rows:
        by_name[name].append(slot)
    assert len(by_name) == schedules
    for name, slots in by_name.items():
        slots.sort()
        gaps = [
            (before, after)
            for before, after in pairwise(slots)
            if after - before != dt.timedelta(seconds=1)
        ]
        assert not gaps, f"{name} lost slots between {gaps[:3]}"
        assert len(slots) >= at_least
    not_dispatched = Counter((s, r) for _, _, s, r in rows if s == "skipped")
    assert not not_dispatched, f"slots that were not dispatched: {not_dispatched}"
    assert_epochs_only_grow(cluster)


def assert_epochs_only_grow(cluster: Cluster) -> None:
    """Each Run was stored while its epoch was the newest, or by a statement begun under it."""
    late = cluster.query(
        "SELECT r.id, r.epoch, r.submitted_at FROM sync_scheduler_run r"
        " JOIN sync_scheduler_term t ON t.epoch = r.epoch + 1"
        " WHERE r.submitted_at > t.started_at + MAKE_INTERVAL(secs => %s)",
        STATEMENT_SECONDS,
    )
    assert not late, f"written under an epoch that was over: {late[:5]}"
