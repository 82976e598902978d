"""What a schedule would do if it were saved: in words, its next runs, the changes of the clock."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from django.utils.translation import gettext as _

from sync_scheduler.admin import moments
from sync_scheduler.errors import InvalidRule
from sync_scheduler.models import Schedule
from sync_scheduler.store.registrations import Definition
from sync_scheduler.timing import slots
from sync_scheduler.timing.description import describe
from sync_scheduler.timing.rules import Recurrence

_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    sentence: str
    zone: str
    runs: tuple[dict[str, Any], ...]
    changes: tuple[str, ...]
    difference: str


def read(definition: Definition, schedule: Schedule | None, now: dt.datetime) -> Preview:
    values = definition.values
    anchor = values["anchor_at"]
    if schedule is not None and keeps_anchor(definition, schedule):
        anchor = schedule.anchor_at
    rule = Recurrence(
        kind=values["kind"],
        expression=values["expression"],
        timezone=values["timezone"],
        anchor=anchor,
        start_at=values["start_at"],
        end_at=values["end_at"],
    )
    zone = values["timezone"]
    found = slots.preview(rule, now, _SHOWN)
    return Preview(
        sentence=describe(rule),
        zone=zone,
        runs=tuple(
            {"at": moments.element(slot, zone, now=now), "utc": moments.utc(slot)} for slot in found
        ),
        changes=tuple(changes(rule, now)),
        difference=difference(schedule, found[0] if found else None, zone, rule, now),
    )


def keeps_anchor(definition: Definition, schedule: Schedule) -> bool:
    """An interval without a start goes on counting from where it began, also with another end."""
    values = definition.values
    names = ("kind", "expression", "timezone")
    return not definition.is_anchored and all(
        getattr(schedule, name) == values[name] for name in names
    )


def changes(rule: Recurrence, now: dt.datetime) -> list[str]:
    """What the next two changes of the clock do to the rule, also when they are far away."""
    told = []
    for change in slots.dst_changes(rule.timezone, now, 2):
        effect = slots.explain_change(rule, change)
        if effect is None:
            effect = _("%(at)s: the clock changes in %(zone)s; no run is affected") % {
                "at": moments.wall(change.instant, rule.timezone, now=now),
                "zone": rule.timezone,
            }
        told.append(effect)
    return told


def difference(
    schedule: Schedule | None,
    after: dt.datetime | None,
    zone: str,
    rule: Recurrence,
    now: dt.datetime,
) -> str:
    """Old and new next run, and whether a slot of today has passed already."""
    if schedule is None:
        return ""
    before = schedule.next_run_at
    if before == after:
        return _("The next run stays as it is.")
    never = _("none")
    text = _("Next run: was %(before)s, now %(after)s.") % {
        "before": moments.wall(before, schedule.timezone, now=now) if before else never,
        "after": moments.wall(after, zone, now=now) if after else never,
    }
    passed = _passed_today(rule, zone, now)
    if passed is not None and rule.kind == "cron":
        text += " " + _("Today's %(at)s has passed and will not be run.") % {
            "at": moments.clock_time(passed, zone)
        }
    return text


def _passed_today(rule: Recurrence, zone: str, now: dt.datetime) -> dt.datetime | None:
    try:
        found = slots.latest(rule, now - dt.timedelta(days=1), now, 1)
    except InvalidRule:
        return None
    if not found:
        return None
    today = moments.wall(now, zone, now=now).rsplit(" ", 2)[0]
    return found[0] if moments.wall(found[0], zone, now=now).startswith(today) else None
