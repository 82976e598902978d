"""The form in which a schedule is written: when, which job, with what input and policies."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from functools import cache
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler.admin import opened
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake.definitions import define
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.redaction import MASK, redacted_input
from sync_scheduler.models import Schedule
from sync_scheduler.store.registrations import Definition
from sync_scheduler.timing.rules import Rule, cron, every, once
from sync_scheduler.timing.zones import first_instant

_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_LONGEST_EXPRESSION = 200
_SHOWN = "%Y-%m-%dT%H:%M:%S"
_NAIVE = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"]
RULE_NAMES = ("kind", "expression", "every", "unit", "at", "timezone", "start_at", "end_at")
# What is written for one kind only.
OWN_NAMES = {"cron": ("expression",), "interval": ("every", "unit"), "once": ("at",)}


class WallTimeField(forms.DateTimeField):
    """A time on the clock of the schedule's own zone; stays naive until the zone is known."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"})
    input_formats = _NAIVE

    def to_python(self, value: Any) -> dt.datetime | None:
        for known in _NAIVE:
            try:
                wall = dt.datetime.strptime(str(value or "").strip(), known)  # noqa: DTZ007
            except ValueError:
                continue
            if not dt.MINYEAR < wall.year < dt.MAXYEAR:
                # Some zone's clock could not show it.
                raise forms.ValidationError(_("Write a year from 2 to 9998."))
            return wall
        if value in self.empty_values:
            return None
        raise forms.ValidationError(_("Write it as 2026-11-23T07:00."))


class ScheduleForm(forms.Form):
    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    job = forms.ChoiceField(label=gettext_lazy("Job"))
    kind = forms.ChoiceField(label=gettext_lazy("Kind"), choices=Schedule.Kind.choices)
    expression = forms.CharField(
        label=gettext_lazy("Cron expression"),
        max_length=_LONGEST_EXPRESSION,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "size": 30}),
        help_text=gettext_lazy(
            "minute hour day month weekday, as in 0 6 * * 1-5; a sixth field is the second"
        ),
    )
    every = forms.FloatField(label=gettext_lazy("Every"), required=False, min_value=0)
    unit = forms.ChoiceField(
        label=gettext_lazy("Unit"),
        required=False,
        choices=[
            ("seconds", gettext_lazy("seconds")),
            ("minutes", gettext_lazy("minutes")),
            ("hours", gettext_lazy("hours")),
            ("days", gettext_lazy("days")),
        ],
    )
    at = WallTimeField(label=gettext_lazy("At"), required=False)
    timezone = forms.CharField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        widget=forms.TextInput(attrs={"list": "ss-zones", "autocomplete": "off"}),
    )
    start_at = WallTimeField(label=gettext_lazy("Not before"), required=False)
    end_at = WallTimeField(label=gettext_lazy("Not after"), required=False)
    overlap = forms.ChoiceField(label=gettext_lazy("Overlap"), choices=Schedule.Overlap.choices)
    misfire = forms.ChoiceField(
        label=gettext_lazy("Missed slots"), choices=Schedule.Misfire.choices
    )
    max_catch_up = forms.IntegerField(
        label=gettext_lazy("Catch up at most"), min_value=1, max_value=10_000
    )
    jitter = forms.FloatField(
        label=gettext_lazy("Jitter in seconds"), min_value=0, max_value=86_400, required=False
    )
    enabled = forms.BooleanField(label=gettext_lazy("Switched on"), required=False)
    input = forms.CharField(
        label=gettext_lazy("Input"),
        required=False,
        max_length=300_000,
        widget=forms.Textarea(attrs={"rows": 5, "cols": 60, "spellcheck": "false"}),
        help_text=gettext_lazy("A JSON object; checked against the job's signature."),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(
        self, data: Any = None, *, schedule: Schedule | None, may_see_input: bool, **kwargs: Any
    ) -> None:
        super().__init__(data, **kwargs)
        self.schedule = schedule
        self.definition: Definition | None = None
        jobs = [(job.name, job.name) for job in opened.jobs()]
        self.fields["job"].choices = jobs  # type: ignore[attr-defined]  # a ChoiceField has them
        if len(jobs) < len(registry.all_jobs()):
            self.fields["job"].help_text = _("The setting ADMIN_JOBS opens further jobs.")
        if schedule is not None:
            self.initial = {**initial_of(schedule), **self.initial}
            self.fields["name"].disabled = True
            if schedule.source == Schedule.Source.CODE:
                for name in ("job", *RULE_NAMES):
                    self.fields[name].disabled = True
                    self.fields[name].required = False
            if schedule.job not in dict(jobs):
                self.fields["job"].choices = [(schedule.job, schedule.job), *jobs]  # type: ignore[attr-defined]
        if not may_see_input:
            del self.fields["input"]

    @property
    def is_from_code(self) -> bool:
        return self.schedule is not None and self.schedule.source == Schedule.Source.CODE

    def clean_input(self) -> dict[str, Any]:
        text = self.cleaned_data["input"].strip() or "{}"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise forms.ValidationError(_("This is not JSON.")) from None
        if not isinstance(value, dict):
            raise forms.ValidationError(_('Write a JSON object, as in {} or {"region": "eu"}.'))
        stored = self.schedule.input if self.schedule is not None else {}
        # A mask that was left in place stands for what is stored.
        return {
            name: stored[name] if item == MASK and name in stored else item
            for name, item in value.items()
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            rule = self._rule(cleaned)
            self.definition = define(
                cleaned["name"], job=cleaned["job"], rule=rule, options=self._options(cleaned)
            )
        except SchedulerError as error:
            self.add_error(None, str(error))
        return cleaned

    def _rule(self, cleaned: dict[str, Any]) -> Rule:
        zone, kind = cleaned["timezone"].strip(), cleaned["kind"]
        if self.is_from_code and self.schedule is not None:
            s = self.schedule
            return Rule(
                kind=s.kind,  # type: ignore[arg-type]  # the column's choices are the same words
                expression=s.expression,
                timezone=s.timezone,
                anchor=s.anchor_at,
                start_at=s.start_at,
                end_at=s.end_at,
            )
        bounds: dict[str, Any] = {
            name: self._instant(zone, cleaned[name], name)
            for name in ("start_at", "end_at")
            if cleaned.get(name) is not None and zone in known_zones()
        }
        if kind == Schedule.Kind.CRON:
            return cron(cleaned.get("expression") or "", tz=zone, **bounds)
        if kind == Schedule.Kind.ONCE:
            if cleaned.get("at") is None:
                raise SchedulerError(_("Say at what time it shall run."))
            at = self._instant(zone, cleaned["at"], "at") if zone in known_zones() else None
            return once(at or cleaned["at"], tz=zone, **bounds)
        seconds = (cleaned.get("every") or 0) * _UNITS[cleaned.get("unit") or "seconds"]
        return every(seconds=seconds, tz=zone, **bounds, **self._anchor(bounds))

    def _instant(self, zone: str, wall: dt.datetime, name: str) -> dt.datetime:
        """What was left as it is shown stays what is stored, also what the clock does not show.

        Whole seconds, and of an hour that comes twice the first: that would be another slot.
        """
        if self.schedule is not None and self.schedule.timezone == zone:
            stored = _stored(self.schedule)[name]
            if stored is not None and _wall(stored, _zone(zone)) == f"{wall:{_SHOWN}}":
                return stored
        return first_instant(zone, wall)

    def _anchor(self, bounds: dict[str, Any]) -> dict[str, Any]:
        """An interval whose start stays goes on counting from where it did."""
        s = self.schedule
        if s is None or s.kind != Schedule.Kind.INTERVAL or s.start_at is None:
            return {}
        return {"start": s.anchor_at} if bounds.get("start_at") == s.start_at else {}

    def _options(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        schedule = self.schedule
        given = cleaned.get("input", schedule.input if schedule is not None else {})
        return {
            "input": given,
            "misfire": cleaned["misfire"],
            "max_catch_up": cleaned["max_catch_up"],
            "overlap": cleaned["overlap"],
            "jitter": cleaned.get("jitter") or 0.0,
            "enabled": cleaned["enabled"],
            "misfire_grace": schedule.misfire_grace if schedule is not None else None,
            "meta": schedule.meta if schedule is not None else None,
        }


@cache
def known_zones() -> frozenset[str]:
    """Read once: it looks through the whole directory of zones."""
    return frozenset(zoneinfo.available_timezones())


def initial_of(schedule: Schedule) -> dict[str, Any]:
    """The row as the form shows it; secrets are masked."""
    zone = _zone(schedule.timezone)
    number, unit = _every(schedule)
    instants = _stored(schedule)
    return {
        "name": schedule.name,
        "job": schedule.job,
        "kind": schedule.kind,
        "expression": schedule.expression if schedule.kind == Schedule.Kind.CRON else "",
        "every": number,
        "unit": unit,
        "at": _wall(instants["at"], zone),
        "timezone": schedule.timezone,
        "start_at": _wall(instants["start_at"], zone),
        "end_at": _wall(instants["end_at"], zone),
        "overlap": schedule.overlap,
        "misfire": schedule.misfire,
        "max_catch_up": schedule.max_catch_up,
        "jitter": schedule.jitter_seconds,
        "enabled": schedule.enabled,
        "input": json.dumps(
            redacted_input(schedule.job, schedule.input), indent=2, ensure_ascii=False
        ),
        "version": schedule.version,
    }


def _stored(schedule: Schedule) -> dict[str, dt.datetime | None]:
    """The instants of the row, by the names of their fields."""
    is_once = schedule.kind == Schedule.Kind.ONCE
    return {
        "at": dt.datetime.fromisoformat(schedule.expression) if is_once else None,
        "start_at": schedule.start_at,
        "end_at": schedule.end_at,
    }


def _every(schedule: Schedule) -> tuple[float | None, str]:
    if schedule.kind != Schedule.Kind.INTERVAL:
        return None, "minutes"
    seconds = float(schedule.expression)
    for unit in ("days", "hours", "minutes"):
        if seconds % _UNITS[unit] == 0:
            return int(seconds) // _UNITS[unit], unit
    return int(seconds) if seconds.is_integer() else seconds, "seconds"


def _zone(name: str) -> dt.tzinfo:
    return zoneinfo.ZoneInfo(name) if name in known_zones() else dt.UTC


def _wall(instant: dt.datetime | None, zone: dt.tzinfo) -> str | None:
    if instant is None:
        return None
    return f"{instant.astimezone(zone):{_SHOWN}}"
