"""The names of everything in Redis. One hash tag per namespace, so that a Cluster can hold it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Keys:
    namespace: str

    def _name(self, what: str) -> str:
        return f"sync_scheduler:{{{self.namespace}}}:{what}"

    @property
    def leader(self) -> str:
        """String: the node that holds the lease; expires with it."""
        return self._name("leader")

    def ready(self, queue: str) -> str:
        """Sorted set: ids of runs that may start, by priority and then by time."""
        return self._name(f"ready:{queue}")

    def later(self, queue: str) -> str:
        """Sorted set: `<priority>|<id>` of runs that are not due yet, by time."""
        return self._name(f"later:{queue}")

    @property
    def queues(self) -> str:
        """Set: names of queues that have been used."""
        return self._name("queues")

    @property
    def dispatch(self) -> str:
        """Channel: a schedule has changed."""
        return self._name("dispatch")

    @property
    def control(self) -> str:
        """Channel: what workers must know at once (a cancelled run, a paused queue)."""
        return self._name("control")

    @property
    def joined(self) -> str:
        """Sorted set: ids of runs that somebody waits for, by when that ends."""
        return self._name("joined")

    def done(self, run_id: str) -> str:
        """List: filled once when a run that somebody waits for has ended."""
        return self._name(f"done:{run_id}")

    @property
    def events(self) -> str:
        """Stream, bounded: what happens to runs, for those who watch live."""
        return self._name("events")

    @property
    def installation(self) -> str:
        """String: the installation that uses this namespace."""
        return self._name("installation")
