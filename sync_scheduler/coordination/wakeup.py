"""Wake-ups of the dispatcher: a schedule has changed, or a leader has resigned.

Only a hint that makes things happen sooner. A dispatcher asks the database about every second or
so anyway, so a wake-up that is lost costs that much and no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sync_scheduler import conf
from sync_scheduler.coordination import client

SCHEDULE = "schedule"
RESIGNED = "resigned"

_listeners: list[Callable[[str], None]] = []
_lock = threading.Lock()


def tell(what: str) -> None:
    """Wake dispatchers, in this process and in others. Never raises, never waits for long."""
    for callback in tuple(_listeners):
        callback(what)
    if not conf.get().uses_redis or client.is_broken():
        return
    try:
        client.client().publish(client.keys().dispatch, what)
    except client.UNREACHABLE:
        client.report_broken()


def listen(callback: Callable[[str], None]) -> Callable[[], None]:
    """Call back on every wake-up of this process. Returns how to stop."""
    with _lock:
        _listeners.append(callback)

    def stop() -> None:
        with _lock:
            if callback in _listeners:
                _listeners.remove(callback)

    return stop


class Listener:
    """Reads what other processes tell, on a connection of its own."""

    def __init__(self, block_seconds: float) -> None:
        self._block = block_seconds
        self._pubsub: Any = None

    def next(self) -> str | None:
        """What was told, or None when nothing came in time.

        Raises one of `client.UNREACHABLE` when Redis cannot be asked.
        """
        if self._pubsub is None:
            subscriber = client.blocking_client(self._block).pubsub(ignore_subscribe_messages=True)
            subscriber.subscribe(client.keys().dispatch)
            self._pubsub = subscriber
        message = self._pubsub.get_message(timeout=self._block)
        if message is None or not isinstance(message.get("data"), str):
            return None
        text: str = message["data"]
        return text

    def close(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None
