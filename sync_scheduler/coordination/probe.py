"""What Redis says about itself, for somebody who looks for trouble."""

from __future__ import annotations

import dataclasses

from sync_scheduler import clock
from sync_scheduler.coordination import client
from sync_scheduler.errors import ServiceUnavailable

_PINGS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """`evicts`: it throws away keys when its memory is full. `latency_seconds`: the median."""

    url: str
    version: str
    policy: str
    evicts: bool
    latency_seconds: float


def probe() -> RedisFacts:
    """Ask it; raises `ServiceUnavailable` with one sentence if it does not answer or is too old."""
    client.require_usable()
    try:
        server, memory = (_one(client.client().info(section)) for section in ("server", "memory"))
        took = sorted(_ping() for _ in range(_PINGS))
    except client.UNREACHABLE as error:
        raise ServiceUnavailable(
            f"Redis at {client.shown_url()} stopped answering ({type(error).__name__})."
        ) from None
    policy = str(memory.get("maxmemory_policy", ""))
    return RedisFacts(
        url=client.shown_url(),
        version=str(server.get("redis_version", "")),
        policy=policy,
        evicts=policy not in {"", "noeviction"},
        latency_seconds=took[len(took) // 2],
    )


def _one(info: dict[str, object]) -> dict[str, object]:
    """A Cluster answers for each of its nodes; the first one stands for all."""
    first = next(iter(info.values()), None)
    return first if isinstance(first, dict) and "maxmemory_policy" not in info else info


def _ping() -> float:
    start = clock.monotonic()
    client.client().ping()
    return clock.monotonic() - start
