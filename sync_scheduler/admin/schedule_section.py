"""What the pages of a schedule share: finding it, going back to it, asking before acting."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from sync_scheduler.admin import marks, schedule_state
from sync_scheduler.admin.address import number
from sync_scheduler.admin.section import Section
from sync_scheduler.models import Schedule


class ScheduleSection(Section):
    def find(self, schedule_id: str | int) -> Schedule:
        wanted = number(str(schedule_id))
        schedule = Schedule.objects.filter(id=wanted).first() if wanted is not None else None
        if schedule is None:
            raise Http404(_("There is no such schedule."))
        return schedule

    def to_schedule(self, schedule: Schedule) -> HttpResponseRedirect:
        return HttpResponseRedirect(self.url("change", schedule.id, model="schedule"))

    def ask(
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
