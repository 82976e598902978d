"""What workers must know at once: that a Run was cancelled.

Only a hint: workers also look at the rows of what they run, every second or so.
"""

from __future__ import annotations

import logging
from typing import Any

from sync_scheduler import conf
from sync_scheduler.coordination import client

logger = logging.getLogger(__name__)

_CANCEL = "cancel:"


def tell_cancelled(run_id: str) -> None:
    """Never raises."""
    if not conf.get().uses_redis or client.is_broken():
        return
    try:
        client.client().publish(client.keys().control, _CANCEL + run_id)
    except client.UNREACHABLE:
        client.report_broken()


class Listener:
    """Reads what is told, on a connection of its own."""

    def __init__(self, block_seconds: float) -> None:
        self._block = block_seconds
        self._pubsub: Any = None

    def next_cancelled(self) -> str | None:
        """The id of a cancelled Run, or None when nothing came in time.

        Raises one of `client.UNREACHABLE` when Redis cannot be asked.
        """
        if self._pubsub is None:
            self._pubsub = client.blocking_client(self._block).pubsub(
                ignore_subscribe_messages=True
            )
            self._pubsub.subscribe(client.keys().control)
        message = self._pubsub.get_message(timeout=self._block)
        if message is None or not isinstance(message.get("data"), str):
            return None
        text: str = message["data"]
        return text.removeprefix(_CANCEL) if text.startswith(_CANCEL) else None

    def close(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None
