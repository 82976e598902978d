"""The section Load: a heat-map of the coming day, so that a pile-up is seen before it happens."""

from __future__ import annotations

import datetime as dt
import statistics
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from sync_scheduler import clock
from sync_scheduler.admin import coming, moments
from sync_scheduler.admin.pages import Load, Page

_STEP = dt.timedelta(minutes=5)
_CELLS = 24 * 12
_ROWS_PER_HOUR = 12
_LEFT, _TOP, _WIDTH, _HEIGHT = 64, 20, 69, 18
_PEAKS = 10


@admin.register(Load)
class LoadAdmin(Page):
    place = "load"
    refreshes = False

    def show_list(self, request: HttpRequest) -> HttpResponse:
        now = clock.now()
        start = timezone.localtime(now).replace(minute=0, second=0, microsecond=0)
        cells = coming.load(now, _CELLS + _ROWS_PER_HOUR, _STEP)
        hours = _hours(cells, start, now)
        peaks = sorted((cell for cell in cells if cell.count), key=lambda c: -c.count)[:_PEAKS]
        total = sum(cell.count for cell in cells)
        context = {
            "hours": hours,
            "minutes": [
                {"text": f":{m * 5:02d}", "x": _LEFT + m * _WIDTH + 4}
                for m in range(_ROWS_PER_HOUR)
            ],
            "width": _LEFT + _ROWS_PER_HOUR * _WIDTH,
            "height": _TOP + len(hours) * _HEIGHT,
            "cell_width": _WIDTH - 2,
            "cell_height": _HEIGHT - 2,
            "peaks": [
                {
                    "at": moments.element(cell.start, now=now),
                    "count": f"{cell.count:,}",
                    "names": cell.names,
                }
                for cell in peaks
            ],
            "summary": ngettext(
                "%(n)s run is due in the coming 24 hours.",
                "%(n)s runs are due in the coming 24 hours.",
                total,
            )
            % {"n": f"{total:,}"},
        }
        return self.show(request, "sync_scheduler/load.html", title=_("Load"), context=context)


def _hours(cells: list[coming.Cell], start: dt.datetime, now: dt.datetime) -> list[dict[str, Any]]:
    """A line per hour, a cell per five minutes; darker is more."""
    usual = statistics.median([cell.count for cell in cells if cell.count] or [0])
    by_start = {cell.start: cell for cell in cells}
    first = start.astimezone(dt.UTC)
    lines = []
    for hour in range(25):
        line = []
        for part in range(_ROWS_PER_HOUR):
            at = first + dt.timedelta(hours=hour, minutes=5 * part)
            cell = by_start.get(at)
            count = cell.count if cell else 0
            line.append(
                {
                    "x": _LEFT + part * _WIDTH,
                    "heat": _heat(count, usual),
                    "title": _title(at, count, cell, now),
                    "count": count or "",
                    "text_x": _LEFT + part * _WIDTH + 4,
                }
            )
        lines.append(
            {
                "y": _TOP + hour * _HEIGHT,
                "text_y": _TOP + hour * _HEIGHT + 12,
                "title": timezone.localtime(first + dt.timedelta(hours=hour)).strftime("%H:00"),
                "cells": line,
            }
        )
    return lines


def _heat(count: int, usual: float) -> int:
    """How far above the usual: an even load is light, however large it is."""
    if count == 0:
        return 0
    return 1 + sum(count > usual * times for times in (1.25, 2, 4))


def _title(at: dt.datetime, count: int, cell: coming.Cell | None, now: dt.datetime) -> str:
    names = ", ".join(f"{name} {number}" for name, number in cell.names) if cell else ""
    when = moments.wall(at, now=now)
    return f"{when}: {moments.runs_in_words(count)}{f' ({names})' if names else ''}"
