"""Moments: instants and durations as people read them.

A time stands on the clock of its zone with weekday and zone, how far away it is in brackets, and
UTC as its title. What has no time says so in words.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo

from django.utils import dateformat, timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

_FAR = dt.timedelta(days=300)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def wall(
    instant: dt.datetime, zone: str | None = None, *, now: dt.datetime, seconds: bool = False
) -> str:
    """`Wed 18 Nov 02:00 CET`; with the year when that is not obvious."""
    local = instant.astimezone(_zone(zone))
    year = " Y" if abs(instant - now) > _FAR else ""
    clock = "H:i:s" if seconds or local.second else "H:i"
    return f"{dateformat.format(local, f'D j M{year} {clock}')} {local.tzname()}"


def clock_time(instant: dt.datetime, zone: str | None = None) -> str:
    """`02:00`, for places where the day is plain."""
    local = instant.astimezone(_zone(zone))
    return local.strftime("%H:%M:%S" if local.second else "%H:%M")


def utc(instant: dt.datetime) -> str:
    return f"{instant.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


def element(
    instant: dt.datetime | None,
    zone: str | None = None,
    *,
    now: dt.datetime,
    otherwise: str | Promise = "",
    seconds: bool = False,
) -> SafeString:
    """The time with its distance from now; `otherwise` says why there is none."""
    if instant is None:
        return format_html('<span class="ss-none">{}</span>', otherwise or _("not yet"))
    return format_html(
        '{} <span class="ss-away">({})</span>',
        exact(instant, zone, now=now, seconds=seconds),
        away(instant, now),
    )


def exact(
    instant: dt.datetime, zone: str | None = None, *, now: dt.datetime, seconds: bool = False
) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        instant.astimezone(dt.UTC).isoformat(),
        utc(instant),
        wall(instant, zone, now=now, seconds=seconds),
    )


def ago(instant: dt.datetime, *, now: dt.datetime) -> SafeString:
    """Only the distance; the time itself is the title."""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        instant.astimezone(dt.UTC).isoformat(),
        utc(instant),
        away(instant, now),
    )


def away(instant: dt.datetime, now: dt.datetime) -> str:
    """`in 3 h`, `5 min ago`."""
    distance = (instant - now).total_seconds()
    if abs(distance) < 1:
        return _("now")
    text = span(abs(distance))
    if distance > 0:
        return _("in %(span)s") % {"span": text}
    return _("%(span)s ago") % {"span": text}


def span(seconds: float) -> str:
    """A rough length: `3 h 20 min`, `2 d`, `45 s`."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    for i, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            if i + 1 < len(_UNITS) and whole < 3:
                smaller, name = _UNITS[i + 1]
                part = rest // smaller
                return f"{whole} {unit} {part} {name}" if part else f"{whole} {unit}"
            return f"{whole} {unit}"
    return f"{seconds} s"


def took(seconds: float | None) -> str:
    """An exact length: `40 ms`, `1.2 s`, `3 m 32 s`."""
    if seconds is None:
        return ""
    if seconds < 0.0005:
        return _("under 1 ms")
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s"


def between(start: dt.datetime | None, end: dt.datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return max((end - start).total_seconds(), 0.0)


def runs_in_words(number: int) -> str:
    return ngettext("%(n)s run", "%(n)s runs", number) % {"n": f"{number:,}"}


def _zone(name: str | None) -> dt.tzinfo:
    if name is None:
        return timezone.get_current_timezone()
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        # A row may hold anything; it must not take its page down.
        return dt.UTC
