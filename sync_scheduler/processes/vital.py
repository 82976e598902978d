"""Threads without which their process is of no use."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


def start_vital(name: str, target: Callable[..., None], *args: Any) -> None:
    """Should it ever end, so does the process: the parent notices that, and makes another.

    A process that lives on without it would keep the Runs that it holds for ever.
    """

    def run() -> None:
        try:
            target(*args)
        except BaseException:  # nothing that it raises changes what is to be done
            logger.exception("the thread %s has failed", name, extra={"event": "thread_failed"})
        finally:
            os._exit(1)

    threading.Thread(target=run, name=name, daemon=True).start()
