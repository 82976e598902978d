"""Wake-ups inside one process; what crosses processes goes through Redis or a poll."""

from __future__ import annotations

import threading
from collections.abc import Callable

_listeners: list[Callable[[], None]] = []
_lock = threading.Lock()


def listen(callback: Callable[[], None]) -> Callable[[], None]:
    """Call back when something in this process has become ready. Returns how to stop."""
    with _lock:
        _listeners.append(callback)

    def stop() -> None:
        with _lock:
            if callback in _listeners:
                _listeners.remove(callback)

    return stop


def ready_here() -> None:
    """Something may have become ready."""
    for callback in tuple(_listeners):
        callback()
