"""The timeline of a schedule: its last slots, now, and the next ones, as a picture.

Height is duration. A failed bar carries a cross, a missed slot is a diamond, a skipped one leaves
a gap with a dash, a success after a retry has a notch. The table under it says the same in words.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence

from django.utils.translation import gettext as _

from sync_scheduler.admin import marks, moments
from sync_scheduler.admin.ticks import Tick

WIDTH, HEIGHT = 900, 96
_TOP, _BOTTOM = 8, 76
_COLUMNS = 36
_STEP = WIDTH / _COLUMNS
_BAR = 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    x: float
    middle: float
    y: float
    height: float
    tone: str
    shape: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    columns: tuple[Column, ...]
    now_x: int
    first: str
    last: str
    summary: str
    width: int = WIDTH
    height: int = HEIGHT
    bottom: int = _BOTTOM
    bar: int = _BAR


def draw(
    ticks: Sequence[Tick],
    coming: Sequence[dt.datetime],
    *,
    zone: str,
    now: dt.datetime,
) -> Timeline:
    """`ticks` newest first, `coming` soonest first."""
    past = list(reversed(ticks[:30]))
    longest = max((tick.seconds or 0 for tick in past), default=0)
    first = 30 - len(past)
    columns = [_past(tick, (first + i) * _STEP, longest, zone, now) for i, tick in enumerate(past)]
    columns += [
        _column(
            (31 + i) * _STEP,
            12,
            marks.DUE,
            f"{moments.wall(slot, zone, now=now)}: {_('due')}",
            "due",
        )
        for i, slot in enumerate(coming[:5])
    ]
    return Timeline(
        columns=tuple(columns),
        now_x=round(30.5 * _STEP),
        first=moments.wall(past[0].slot, zone, now=now) if past else "",
        last=moments.wall(coming[min(len(coming), 5) - 1], zone, now=now) if coming else "",
        summary=_summary(past, coming),
    )


def _past(
    tick: Tick,
    x: float,
    longest: float,
    zone: str,
    now: dt.datetime,
) -> Column:
    words = [str(tick.mark.word), tick.took, tick.why]
    title = f"{moments.wall(tick.slot, zone, now=now)}: {', '.join(w for w in words if w)}"
    if tick.seconds is None:
        return _column(x, 12, tick.mark, title, _flat(tick.mark))
    share = math.log1p(tick.seconds * 10) / math.log1p(longest * 10) if longest > 0 else 0
    return _column(x, 8 + share * (_BOTTOM - _TOP - 8), tick.mark, title, "bar")


def _flat(mark: marks.Mark) -> str:
    if mark in {marks.MISSED}:
        return "missed"
    if mark in {marks.FAILED, marks.TIMED_OUT}:
        return "bar"
    if mark in {marks.DUE, marks.WAITING, marks.RETRYING}:
        return "due"
    return "skipped"


def _column(x: float, height: float, mark: marks.Mark, title: str, kind: str) -> Column:
    left = round(x + (_STEP - _BAR) / 2, 1)
    shape = kind
    if kind == "bar":
        shape = {"cross": "bar-failed", "bent": "bar-retried"}.get(mark.shape, "bar")
    return Column(
        x=left,
        middle=round(left + _BAR / 2, 1),
        y=round(_BOTTOM - height, 1),
        height=round(height, 1),
        tone=mark.tone,
        shape=shape,
        title=title,
    )


def _summary(past: Sequence[Tick], coming: Sequence[dt.datetime]) -> str:
    counts = Counter(str(tick.mark.word) for tick in past)
    listed = ", ".join(f"{number} {word}" for word, number in counts.most_common())
    return _("The last %(n)s slots: %(counts)s. The next %(m)s are drawn behind the line.") % {
        "n": len(past),
        "counts": listed or _("none"),
        "m": len(coming[:5]),
    }
