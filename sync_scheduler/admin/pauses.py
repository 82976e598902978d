"""Pausing a schedule with a note and an end, and resuming it."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler import clock
from sync_scheduler.admin import moments, schedule_state
from sync_scheduler.admin.schedule_form import WallTimeField
from sync_scheduler.admin.schedule_section import ScheduleSection
from sync_scheduler.admin.section import page
from sync_scheduler.models import Schedule
from sync_scheduler.timing import slots
from sync_scheduler.timing.zones import first_instant

_MOST_SKIPPED = 1_000
_MORNING = 8
_NAMED = 3


class PauseForm(forms.Form):
    note = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=500,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Why, for whoever finds it paused."),
    )
    until = WallTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    meanwhile = forms.ChoiceField(
        label=gettext_lazy("Slots that pass meanwhile"),
        choices=[
            ("skip", gettext_lazy("skip them")),
            ("catch_up", gettext_lazy("run the newest of them when the pause ends, once")),
        ],
        initial="skip",
        required=False,
        widget=forms.RadioSelect,
    )


class Pauses(ScheduleSection):
    """GET explains, POST acts."""

    @page
    def pause_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "pause_schedule", schedule)
        choices = _pause_choices(schedule)
        form = PauseForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            until = self._until(form, schedule, request.POST.get("choice", ""))
            if not form.errors:
                note = form.cleaned_data["note"]
                schedule.pause(
                    note=note,
                    until=until,
                    by=request.user.get_username(),
                    catch_up=form.cleaned_data["meanwhile"] == "catch_up",
                )
                how = schedule_state.pause_line(schedule, clock.now())
                self.log_change(request, schedule, f"Paused {how}")
                messages.success(request, _("Paused %(how)s.") % {"how": how})
                return self.to_schedule(schedule)
        return self.ask(
            request,
            schedule,
            form,
            title=_("Pause"),
            button=_("Pause"),
            facts=[
                _("Slots that come due meanwhile are recorded with the note."),
                _("It resumes by itself at the time you choose. What it has run so far stays."),
                _("However many slots pass, the end of the pause never starts more than one run."),
            ],
            template="sync_scheduler/pause.html",
            extra={"choices": choices},
        )

    def _until(self, form: PauseForm, schedule: Schedule, choice: str) -> dt.datetime | None:
        """The time that the button stands for; naive input is on the schedule's own clock."""
        likely = _likely_ends(schedule, clock.now()).get(choice)
        if likely is not None:
            return likely
        wanted: dt.datetime | None = form.cleaned_data["until"]
        if wanted is None:
            if choice == "date":
                form.add_error("until", _("Choose a date and time."))
            return None
        until = first_instant(schedule.timezone, wanted)
        if until <= clock.now():
            form.add_error("until", _("This time has passed."))
        return until

    @page
    def resume_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "pause_schedule", schedule)
        if request.method == "POST":
            schedule.resume()
            self.log_change(request, schedule, "Resumed")
            now = clock.now()
            messages.success(
                request,
                format_html(_("Resumed. Next run: {}."), schedule_state.next_run(schedule, now)),
            )
            return self.to_schedule(schedule)
        return self.ask(
            request,
            schedule,
            forms.Form(),
            title=_("Resume"),
            button=_("Resume now"),
            facts=[_on_resume(schedule)],
        )


def _on_resume(schedule: Schedule) -> str:
    if schedule.holds_slots_back:
        return _("The newest slot that passed meanwhile is run now, once; then it goes on.")
    return _("It goes on with its next slot; what passed meanwhile is not made up for.")


def _likely_ends(schedule: Schedule, now: dt.datetime) -> dict[str, dt.datetime]:
    """By button; on a Sunday two of them mean the same, and a page may be older than today."""
    today = now.astimezone(zoneinfo.ZoneInfo(schedule.timezone)).date()
    days = {"tomorrow": 1, "monday": 7 - today.weekday()}
    return {
        key: first_instant(
            schedule.timezone,
            dt.datetime.combine(today + dt.timedelta(days=number), dt.time(_MORNING)),
        )
        for key, number in days.items()
    }


def _pause_choices(schedule: Schedule) -> list[dict[str, Any]]:
    """Buttons for the likely ends of a pause, each with how many slots it skips."""
    now = clock.now()
    found: list[dict[str, Any]] = []
    for key, at in _likely_ends(schedule, now).items():
        if any(one["at"] == at for one in found):
            continue
        skipped = min(slots.count(schedule.recurrence, now, at), _MOST_SKIPPED)
        found.append(
            {
                "key": key,
                "at": at,
                "title": _("Pause until %(at)s")
                % {"at": moments.wall(at, schedule.timezone, now=now)},
                "skips": skipped,
                "is_many": skipped == _MOST_SKIPPED,
                "first": [
                    moments.clock_time(slot, schedule.timezone)
                    for slot in slots.upcoming(schedule.recurrence, now, at, _NAMED)
                ],
            }
        )
    return found
