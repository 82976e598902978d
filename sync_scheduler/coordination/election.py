"""The leader's lease in Redis: who may take over without waiting for the row's lease.

Redis decides how soon, never whether: the epoch is minted in the database, and what a leader
writes is checked there. The lease is taken only where there is none, extended and given up only
by its holder. All of these raise one of `client.UNREACHABLE` when Redis cannot be asked; an
exception is never taken for an answer.
"""

from __future__ import annotations

from sync_scheduler.coordination.client import client, keys, script


def campaign(node: str, lease_seconds: float) -> bool:
    """Take the lease if nobody holds it. True: this node holds it now."""
    return renew(node, lease_seconds) == node


def renew(node: str, lease_seconds: float) -> str:
    """Extend the lease, or take it up again after Redis lost it. Returns who holds it."""
    answer = script("renew_term", client())(
        keys=[keys().leader], args=[node, int(lease_seconds * 1000)]
    )
    return str(answer)


def resign(node: str) -> bool:
    """Give the lease up. False: it was not this node's."""
    return bool(script("resign_term", client())(keys=[keys().leader], args=[node]))
