"""Filling gaps: runs for slots of the past, with a preview of how many and which."""

from __future__ import annotations

import dataclasses
import datetime as dt
import zoneinfo
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from sync_scheduler import clock, conf
from sync_scheduler.admin import moments
from sync_scheduler.admin.address import query
from sync_scheduler.admin.schedule_form import WallTimeField
from sync_scheduler.admin.schedule_section import ScheduleSection
from sync_scheduler.admin.section import page
from sync_scheduler.errors import SchedulerError
from sync_scheduler.lifecycle import State, Trigger
from sync_scheduler.models import Run, Schedule
from sync_scheduler.timing import slots
from sync_scheduler.timing.zones import first_instant

_SHOWN = 12
_MICROSECOND = dt.timedelta(microseconds=1)


class BackfillForm(forms.Form):
    start = WallTimeField(label=gettext_lazy("From"))
    end = WallTimeField(label=gettext_lazy("To"))
    again = forms.BooleanField(
        label=gettext_lazy("Also slots that have run"),
        required=False,
        help_text=gettext_lazy("Otherwise only those that were skipped or never dispatched."),
    )
    beside = forms.BooleanField(
        label=gettext_lazy("Beside each other"),
        required=False,
        help_text=gettext_lazy("Otherwise one after another, behind regular runs."),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What a range would submit."""

    count: int
    in_range: int
    shown: tuple[str, ...]
    more: int
    problem: str = ""


class Backfills(ScheduleSection):
    """Checking shows what would happen, filling does it."""

    @page
    def backfill_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "trigger_schedule", schedule)
        now = clock.now()
        form = BackfillForm(request.POST or None, initial=_last_day(schedule, now))
        gap = None
        if request.method == "POST" and form.is_valid():
            start = first_instant(schedule.timezone, form.cleaned_data["start"])
            end = first_instant(schedule.timezone, form.cleaned_data["end"])
            again = form.cleaned_data["again"]
            gap = read_gap(schedule, start, end, again=again, now=now)
            if "_check" not in request.POST and not gap.problem:
                done = self._fill(request, schedule, form, start, end)
                if done is not None:
                    return done
        return self.ask(
            request,
            schedule,
            form,
            title=_("Fill gap"),
            button=_("Fill %(n)s") % {"n": gap.count} if gap and gap.count else "",
            facts=[
                _("Times are on the clock of %(zone)s.") % {"zone": schedule.timezone},
                _("Each slot is filled once; filling it again gives the run that does."),
            ],
            template="sync_scheduler/backfill.html",
            extra={"gap": gap},
        )

    def _fill(
        self,
        request: HttpRequest,
        schedule: Schedule,
        form: BackfillForm,
        start: dt.datetime,
        end: dt.datetime,
    ) -> HttpResponse | None:
        try:
            runs = schedule.backfill(
                start,
                end,
                again=form.cleaned_data["again"],
                overlap="concurrent" if form.cleaned_data["beside"] else None,
                by=request.user.get_username(),
            )
        except SchedulerError as error:
            form.add_error(None, str(error))
            return None
        number = len(runs)
        self.log_change(
            request,
            schedule,
            f"Filled {number} slots from {start.isoformat()} to {end.isoformat()}",
        )
        text = ngettext("%(n)s run was submitted.", "%(n)s runs were submitted.", number)
        if not runs:
            messages.info(request, _("There was nothing to fill."))
            return self.to_schedule(schedule)
        chosen = query({"schedule": schedule.id, "trigger": Trigger.BACKFILL.value})
        url = self.url("changelist", model="run") + chosen
        messages.success(request, format_html('<a href="{}">{}</a>', url, text % {"n": number}))
        return HttpResponseRedirect(url)


def read_gap(
    schedule: Schedule, start: dt.datetime, end: dt.datetime, *, again: bool, now: dt.datetime
) -> Gap:
    """Which slots of the range would get a run."""
    if end < start:
        return Gap(count=0, in_range=0, shown=(), more=0, problem=_("The end is before the start."))
    until = min(end, now)
    if schedule.enabled and schedule.next_run_at is not None:
        until = min(until, schedule.next_run_at - _MICROSECOND)
    limit = conf.get().MAX_BACKFILL
    after = start - _MICROSECOND
    number = slots.count(schedule.recurrence, after, until)
    if number > limit:
        problem = _("The range has %(n)s slots; at most %(limit)s are filled at once.") % {
            "n": f"{number:,}",
            "limit": f"{limit:,}",
        }
        return Gap(count=0, in_range=number, shown=(), more=0, problem=problem)
    due = slots.upcoming(schedule.recurrence, after, until, limit)
    if not again:
        done = _done(schedule, due)
        due = [slot for slot in due if slot not in done]
    return Gap(
        count=len(due),
        in_range=number,
        shown=tuple(moments.wall(slot, schedule.timezone, now=now) for slot in due[:_SHOWN]),
        more=max(len(due) - _SHOWN, 0),
    )


def _done(schedule: Schedule, due: list[dt.datetime]) -> set[dt.datetime]:
    if not due:
        return set()
    ran = Run.objects.filter(
        schedule_id=schedule.id, trigger=Trigger.SLOT, slot__gte=due[0], slot__lte=due[-1]
    ).exclude(status=State.SKIPPED)
    return {slot for slot in ran.values_list("slot", flat=True) if slot is not None}


def _last_day(schedule: Schedule, now: dt.datetime) -> dict[str, Any]:
    def wall(instant: dt.datetime) -> str:
        local = instant.astimezone(zoneinfo.ZoneInfo(schedule.timezone))
        return local.strftime("%Y-%m-%dT%H:%M")

    return {"start": wall(now - dt.timedelta(days=1)), "end": wall(now)}
