"""What people do to a schedule: run it now, pause it, resume it."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler import clock
from sync_scheduler.admin import marks, moments, schedule_rows, schedule_state
from sync_scheduler.admin.input_form import InputForm
from sync_scheduler.admin.section import Section, page
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake import runs as intake
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job, Options
from sync_scheduler.lifecycle import Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.timing import slots
from sync_scheduler.timing.zones import first_instant

_MOST_SKIPPED = 1_000
_MORNING = 8


class TriggerForm(InputForm):
    overlap = forms.ChoiceField(
        label=gettext_lazy("If a run is active"),
        choices=[
            ("wait", gettext_lazy("start when it ends")),
            ("beside", gettext_lazy("start beside it")),
        ],
    )

    field_order = ("reason", "overlap")


class PauseForm(forms.Form):
    note = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=500,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Why, for whoever finds it paused."),
    )
    until = forms.DateTimeField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    )


class ScheduleActions(Section):
    """Each action has a page of its own; GET explains, POST acts."""

    def find(self, schedule_id: str | int) -> Schedule:
        text = str(schedule_id)
        wanted = int(text) if text.isdecimal() and len(text) < 19 else None
        schedule = Schedule.objects.filter(id=wanted).first() if wanted is not None else None
        if schedule is None:
            raise Http404(_("There is no such schedule."))
        return schedule

    def to_schedule(self, schedule: Schedule) -> HttpResponseRedirect:
        return HttpResponseRedirect(self.url("change", schedule.id, model="schedule"))

    # ------------------------------------------------------------------ run now

    @page
    def trigger_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "trigger_schedule", schedule)
        job = registry.find(schedule.job)
        if job is None:
            messages.error(
                request,
                _("No job named %(job)s is registered here.") % {"job": schedule.job},
            )
            return self.to_schedule(schedule)
        own = "beside" if schedule.overlap == Schedule.Overlap.CONCURRENT else "wait"
        form = TriggerForm(
            request.POST or None,
            job=job,
            stored=schedule.input,
            show_input=self.may(request, "view_payload", schedule),
            initial={"overlap": own},
        )
        if request.method == "POST" and form.is_valid():
            try:
                run = self._trigger(request, schedule, job, form)
            except SchedulerError as error:
                form.add_error(None, str(error))
            else:
                return HttpResponseRedirect(self.url("change", run.id, model="run"))
        return self._ask(
            request,
            schedule,
            form,
            title=_("Trigger now"),
            button=_("Trigger now"),
            facts=[_("This does not change the next run.")],
            warnings=self._trigger_warnings(schedule),
        )

    def _trigger(
        self, request: HttpRequest, schedule: Schedule, job: Job, form: TriggerForm
    ) -> Run:
        by, given = request.user.get_username(), form.cleaned_data
        meta = {"by": by, "why": given["reason"]}
        guard = schedule.id if given["overlap"] == "wait" else None
        run = intake.submit(
            job,
            form.encoded,
            Options(key=f"trigger:{schedule.name}:{given['token']}"[:255], meta=meta),
            intake.Origin(
                trigger=Trigger.MANUAL,
                schedule_id=schedule.id,
                schedule_name=schedule.name,
                guard=guard,
            ),
        )
        self.log_change(request, schedule, f"Triggered run {run.id}: {given['reason']}")
        messages.success(
            request,
            format_html(
                _('{} was triggered: <a href="{}">run {}</a>.'),
                schedule.name,
                self.url("change", run.id, model="run"),
                str(run.id)[:8],
            ),
        )
        return run

    def _trigger_warnings(self, schedule: Schedule) -> list[str]:
        now = clock.now()
        found = []
        if schedule.is_paused:
            found.append(
                _("The schedule is paused %(how)s. Triggering runs it all the same.")
                % {"how": schedule_state.pause_line(schedule, now)}
            )
        elif not schedule.enabled:
            found.append(_("The schedule is switched off. Triggering runs it all the same."))
        runs = schedule_rows.newest_runs([schedule.id]).get(schedule.id, [])
        if any(not run.is_finished for run in runs):
            found.append(_("A run of this schedule is active now."))
        last = schedule_rows.last_ended(runs)
        if last is not None and last.status in {"failed", "timed_out"}:
            found.append(
                _("The last run failed: %(cause)s")
                % {"cause": schedule_state.standing(schedule, last, now).line}
            )
        return found

    # ------------------------------------------------------------------ pause and resume

    @page
    def pause_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "pause_schedule", schedule)
        choices = _pause_choices(schedule)
        form = PauseForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            until = self._until(form, schedule, request.POST.get("choice", ""), choices)
            if not form.errors:
                note = form.cleaned_data["note"]
                schedule.pause(note=note, until=until, by=request.user.get_username())
                how = schedule_state.pause_line(schedule, clock.now())
                self.log_change(request, schedule, f"Paused {how}")
                messages.success(request, _("Paused %(how)s.") % {"how": how})
                return self.to_schedule(schedule)
        return self._ask(
            request,
            schedule,
            form,
            title=_("Pause"),
            button=_("Pause"),
            facts=[
                _("Slots that come due meanwhile are skipped, and each is recorded with the note."),
                _("It resumes by itself at the time you choose. What it has run so far stays."),
            ],
            template="sync_scheduler/pause.html",
            extra={"choices": choices},
        )

    def _until(
        self,
        form: PauseForm,
        schedule: Schedule,
        choice: str,
        choices: list[dict[str, Any]],
    ) -> dt.datetime | None:
        """The time that the button stands for; naive input is on the schedule's own clock."""
        for known in choices:
            if known["key"] == choice:
                at: dt.datetime | None = known["at"]
                return at
        wanted: dt.datetime | None = form.cleaned_data["until"]
        if wanted is None:
            if choice == "date":
                form.add_error("until", _("Choose a date and time."))
            return None
        until = first_instant(schedule.timezone, wanted.replace(tzinfo=None))
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
        return self._ask(
            request,
            schedule,
            forms.Form(),
            title=_("Resume"),
            button=_("Resume now"),
            facts=[_("It goes on with its next slot; what passed meanwhile is not made up for.")],
        )

    # ------------------------------------------------------------------ around them

    def _ask(
        self,
        request: HttpRequest,
        schedule: Schedule,
        form: forms.Form,
        *,
        title: str,
        button: str,
        facts: list[str],
        warnings: list[str] | None = None,
        template: str = "sync_scheduler/confirm.html",
        extra: dict[str, Any] | None = None,
    ) -> HttpResponse:
        back = self.url("change", schedule.id, model="schedule")
        mark = marks.PAUSED.html if schedule.is_paused else ""
        return self.show(
            request,
            template,
            title=title,
            context={
                "form": form,
                "subject": schedule.name,
                "subject_state": mark,
                "sentence": schedule_state.sentence(schedule),
                "facts": facts,
                "warnings": warnings or [],
                "button": button,
                "back": back,
                **(extra or {}),
            },
            crumbs=(
                (_("Schedules"), self.url("changelist", model="schedule")),
                (schedule.name, back),
            ),
            refresh=0,
        )


def _pause_choices(schedule: Schedule) -> list[dict[str, Any]]:
    """Buttons for the likely ends of a pause, each with how many slots it skips."""
    now = clock.now()
    today = now.astimezone(zoneinfo.ZoneInfo(schedule.timezone)).date()
    tomorrow = today + dt.timedelta(days=1)
    monday = today + dt.timedelta(days=7 - today.weekday())
    found: list[dict[str, Any]] = []
    for key, day in (("tomorrow", tomorrow), ("monday", monday)):
        if any(one["day"] == day for one in found):
            continue
        wall = dt.datetime(day.year, day.month, day.day, _MORNING)  # noqa: DTZ001  # on the wall
        at = first_instant(schedule.timezone, wall)
        skipped = min(slots.count(schedule.recurrence, now, at), _MOST_SKIPPED)
        found.append(
            {
                "key": key,
                "day": day,
                "at": at,
                "title": _("Pause until %(at)s")
                % {"at": moments.wall(at, schedule.timezone, now=now)},
                "skips": skipped,
                "is_many": skipped == _MOST_SKIPPED,
            }
        )
    return found
