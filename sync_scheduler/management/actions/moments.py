"""Times for people: local wall time with its zone, and how far away it is. And back again."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from sync_scheduler import clock
from sync_scheduler.management.actions.answer import ActionFailed

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def local(at: dt.datetime, zone: dt.tzinfo | None = None) -> str:
    """`2026-03-01 06:00:00 CET (in 2 h)`, in this zone or in Django's current one."""
    return f"{timezone.localtime(at, zone):%Y-%m-%d %H:%M:%S %Z} ({relative(at)})"


def local_or(at: dt.datetime | None, otherwise: str) -> str:
    return otherwise if at is None else local(at)


def due(at: dt.datetime | None, otherwise: str) -> str:
    """Like `local`; a due time that has passed says so."""
    if at is None:
        return otherwise
    return f"overdue: {local(at)}" if at < clock.now() - dt.timedelta(seconds=5) else local(at)


def relative(at: dt.datetime) -> str:
    seconds = (at - clock.now()).total_seconds()
    if abs(seconds) < 1:
        return "now"
    text = span(abs(seconds))
    return f"in {text}" if seconds > 0 else f"{text} ago"


def span(seconds: float) -> str:
    """`3 d 4 h`, `2 min 5 s`, `1.2 s`, `35 ms`: the two largest units."""
    if seconds < 0.01:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    left, parts = round(seconds), []
    for size, unit in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {unit}")
    if left:
        parts.append(f"{left} s")
    return " ".join(parts[:2])


def took(start: dt.datetime | None, end: dt.datetime | None) -> str:
    return "" if start is None or end is None else span((end - start).total_seconds())


def parse(text: str, what: str) -> dt.datetime:
    """An ISO 8601 time or date; without a zone it is meant in Django's current one."""
    try:
        at = dt.datetime.fromisoformat(text)
        if not dt.MINYEAR < at.year < dt.MAXYEAR:
            raise ValueError("not every zone's clock can show it")
        return at if at.tzinfo is not None else timezone.make_aware(at)
    except (ValueError, OverflowError):
        raise ActionFailed(
            f"{what}: {text!r} is not a time; write it like 2026-03-01T06:00 or"
            " 2026-03-01T06:00+01:00."
        ) from None
