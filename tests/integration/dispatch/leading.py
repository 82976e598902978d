"""A term for tests of what a leader does, without the loops around it."""

from __future__ import annotations

from sync_scheduler import clock
from sync_scheduler.dispatch.term import Term
from sync_scheduler.store import leader


def lead(node: str = "test-node") -> Term:
    """Begin the next term at once, whoever leads."""
    seen = leader.look()
    epoch = leader.mint(
        seen=seen, holder=node, lease_seconds=60, is_sure=True, because="a test took over"
    )
    assert epoch == seen.epoch + 1
    return Term(epoch=epoch, holder=node, trusted_until=clock.boot_seconds() + 60)
