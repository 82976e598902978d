"""What workers must know at once: that a Run was cancelled, that a queue was paused or resumed.

Only a hint: workers also look at the rows, every second or so.
"""

from __future__ import annotations

import logging
from typing import Any

from sync_scheduler import conf
from sync_scheduler.coordination import client

logger = logging.getLogger(__name__)

_CANCEL, _QUEUES = "cancel:", "queues:"


def tell_cancelled(run_id: str) -> None:
    """Never raises."""
    _tell(_CANCEL + run_id)


def tell_queues_changed() -> None:
    """Never raises."""
    _tell(_QUEUES)


def _tell(text: str) -> None:
    if not conf.get().uses_redis or client.is_broken():
        return
    try:
        client.client().publish(client.keys().control, text)
    except client.UNREACHABLE:
        client.report_broken()


class Listener:
    """Reads what is told, on a connection of its own."""

    def __init__(self, block_seconds: float) -> None:
        self._block = block_seconds
        self._pubsub: Any = None

    def next_note(self) -> str | None:
        """The id of a cancelled Run, "" if queues have changed, None when nothing came in time.

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
        if text == _QUEUES:
            return ""
        return text.removeprefix(_CANCEL) if text.startswith(_CANCEL) else None

    def close(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None
