"""Who uses a namespace of Redis: one installation, or two would take each other's hints and lead.

Only a mark that runs out by itself: a database that was made anew waits for that long.
"""

from __future__ import annotations

from sync_scheduler.coordination.client import client, keys, script

MARK_SECONDS = 60.0


def occupy(installation: str) -> str:
    """Mark the namespace as this installation's unless another one has; returns whose it is.

    Raises one of `client.UNREACHABLE` when Redis cannot be asked.
    """
    # The same rule as for the leader's lease: taken where there is none, extended by its holder.
    answer = script("renew_term", client())(
        keys=[keys().installation], args=[installation, int(MARK_SECONDS * 1000)]
    )
    return str(answer)
