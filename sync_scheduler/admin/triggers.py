"""Running a schedule now: with a reason, its input checked, and one Run per form."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler import clock, lifecycle
from sync_scheduler.admin import opened, schedule_rows, schedule_state
from sync_scheduler.admin.input_form import InputForm
from sync_scheduler.admin.schedule_section import ScheduleSection
from sync_scheduler.admin.section import page
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake import runs as intake
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job, Options
from sync_scheduler.lifecycle import Trigger
from sync_scheduler.models import Run, Schedule


class TriggerForm(InputForm):
    overlap = forms.ChoiceField(
        label=gettext_lazy("If a run is active"),
        choices=[
            ("wait", gettext_lazy("start when it ends")),
            ("beside", gettext_lazy("start beside it")),
        ],
    )

    field_order = ("reason", "overlap")


class Triggers(ScheduleSection):
    """GET explains, POST acts."""

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
        if not opened.may_trigger(schedule, job):
            messages.error(request, opened.refusal(job))
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
        return self.ask(
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
                run.short_id,
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
        if last is not None and last.status in lifecycle.FAILURES:
            found.append(
                _("The last run failed: %(cause)s")
                % {"cause": schedule_state.standing(schedule, last, now).line}
            )
        return found
