"""What a handler raises to decide its own end."""

from __future__ import annotations


class Retry(Exception):  # reads as a verb where it is raised
    """Try this Run again later; counts as an attempt."""

    def __init__(self, delay: float | None = None, reason: str = "") -> None:
        super().__init__(reason or "retry")
        self.delay = delay
        self.reason = reason


class Cancel(Exception):
    """End this Run as cancelled."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class TimeLimit(BaseException):
    """Raised inside a handler that has run longer than its timeout.

    Not an `Exception`: a handler that retries whatever fails must not swallow it.
    """

    def __init__(self) -> None:
        super().__init__("the handler ran longer than its timeout")
