"""Doing one thing to several schedules: pause, resume or run them, after a question."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from sync_scheduler.admin import opened
from sync_scheduler.admin.address import number
from sync_scheduler.admin.schedule_section import ScheduleSection
from sync_scheduler.admin.section import page
from sync_scheduler.admin.tokens import TokenField
from sync_scheduler.errors import SchedulerError
from sync_scheduler.models import Schedule

MOST = 100
_PERMISSIONS = {
    "pause": "pause_schedule",
    "resume": "pause_schedule",
    "trigger": "trigger_schedule",
}


class BulkForm(forms.Form):
    token = TokenField()


class BulkNoteForm(BulkForm):
    note = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=300,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Why, for whoever looks at it later."),
    )


class Bulk(ScheduleSection):
    @page
    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        verb = request.GET.get("do", "")
        if verb not in _PERMISSIONS:
            return HttpResponseRedirect(self.url("changelist"))
        chosen = self._chosen(request)
        allowed = [one for one in chosen if self.may(request, _PERMISSIONS[verb], one)]
        self.require(request, _PERMISSIONS[verb], allowed[0] if allowed else None)
        if not allowed:
            messages.warning(request, _("Tick the schedules first."))
            return HttpResponseRedirect(self.url("changelist"))
        form = (BulkForm if verb == "resume" else BulkNoteForm)(request.POST or None)
        if request.method == "POST" and form.is_valid():
            self._do(request, verb, allowed, form.cleaned_data)
            return HttpResponseRedirect(self.url("changelist"))
        many = len(allowed)
        titles = {
            "pause": ngettext("Pause %(n)s schedule", "Pause %(n)s schedules", many),
            "resume": ngettext("Resume %(n)s schedule", "Resume %(n)s schedules", many),
            "trigger": ngettext("Run %(n)s schedule now", "Run %(n)s schedules now", many),
        }
        title = titles[verb] % {"n": many}
        facts = [one.name for one in allowed]
        if len(chosen) > many:
            left = len(chosen) - many
            facts.append(_("%(n)s more are left out: you may not do this to them.") % {"n": left})
        return self.show(
            request,
            "sync_scheduler/confirm.html",
            title=title,
            context={
                "form": form,
                "facts": facts,
                "button": title,
                "back": self.url("changelist"),
            },
            crumbs=((_("Schedules"), self.url("changelist")),),
            refresh=0,
        )

    def _chosen(self, request: HttpRequest) -> list[Schedule]:
        ids = [one for one in map(number, request.GET.getlist("id")) if one is not None]
        return list(Schedule.objects.filter(id__in=ids[:MOST]).order_by("name"))

    def _do(
        self, request: HttpRequest, verb: str, allowed: list[Schedule], given: dict[str, Any]
    ) -> None:
        by, done = request.user.get_username(), 0
        for schedule in allowed:
            try:
                if verb == "pause":
                    schedule.pause(note=given["note"], by=by)
                elif verb == "resume":
                    schedule.resume()
                else:
                    opened.require(schedule)
                    meta = {"why": given["note"]}
                    schedule.trigger_now(key=f"admin-{given['token']}", by=by, meta=meta)
            except SchedulerError as error:
                messages.error(request, f"{schedule.name}: {error}")
                continue
            done += 1
            self.log_change(request, schedule, f"{verb.capitalize()}: {given.get('note', '')}")
        texts = {
            "pause": ngettext("%(n)s schedule is paused.", "%(n)s schedules are paused.", done),
            "resume": ngettext("%(n)s schedule goes on.", "%(n)s schedules go on.", done),
            "trigger": ngettext("%(n)s run was submitted.", "%(n)s runs were submitted.", done),
        }
        if done:
            messages.success(request, texts[verb] % {"n": done})
