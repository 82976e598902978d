"""Run batches: retrying every failed Run that a filter matches, and following them together."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from sync_scheduler import clock
from sync_scheduler.admin import run_rows
from sync_scheduler.admin.address import query
from sync_scheduler.admin.run_actions import RunActions
from sync_scheduler.admin.run_filter import RunFilter
from sync_scheduler.admin.section import page
from sync_scheduler.admin.tokens import TokenField
from sync_scheduler.errors import SchedulerError
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run

MOST = 1_000
_SHOWN = 12
_MOST_PROBLEMS = 5


class BatchForm(forms.Form):
    token = TokenField()


class RunBatches(RunActions):
    @page
    def retry_all_view(self, request: HttpRequest) -> HttpResponse:
        """What was counted is what is retried: the address names the newest Run that counts."""
        self.require(request, "retry_run")
        wanted = RunFilter.read(request.GET.dict())
        found = matching(wanted, clock.now())
        form = BatchForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            return self._retry_all(request, found, form.cleaned_data["token"])
        number = len(found)
        shown = run_rows.rows(found[:_SHOWN], now=clock.now())
        facts = [
            _("Each becomes a new run with the input of the old one; the old ones stay."),
            *(f"{row.name}: {row.cause}" for row in shown),
        ]
        if number > _SHOWN:
            facts.append(_("and %(n)s more") % {"n": number - _SHOWN})
        if number == MOST:
            facts.append(_("At most %(n)s are retried at once.") % {"n": f"{MOST:,}"})
        return self.show(
            request,
            "sync_scheduler/confirm.html",
            title=_("Retry all that match"),
            context={
                "form": form,
                "facts": facts if found else [_("No failed run matches any more.")],
                "button": _("Retry %(n)s") % {"n": number} if found else "",
                "back": self.url("changelist") + wanted.address(last=None),
            },
            crumbs=((_("Runs"), self.url("changelist")),),
            refresh=0,
        )

    def _retry_all(self, request: HttpRequest, found: list[Run], token: str) -> HttpResponse:
        """Each by itself: one that cannot be retried does not keep others from it."""
        made: list[Run] = []
        problems: list[str] = []
        for run in found:
            try:
                if not self.may(request, "retry_run", run):
                    raise SchedulerError(_("you may not retry it"))
                made.append(self.retry(request, run, token))
            except SchedulerError as error:
                problems.append(f"{run.schedule_name or run.job}: {error}")
        for problem in problems[:_MOST_PROBLEMS]:
            messages.warning(request, problem)
        text = ngettext("%(n)s run was submitted.", "%(n)s runs were submitted.", len(made))
        messages.success(request, text % {"n": len(made)})
        if not made:
            return HttpResponseRedirect(self.url("changelist"))
        first, last = min(run.id for run in made), max(run.id for run in made)
        batch = query({"first": first, "last": last, "trigger": "retry"})
        return HttpResponseRedirect(self.url("changelist") + batch)

    def retry_all_link(self, wanted: RunFilter, now: dt.datetime) -> dict[str, Any] | None:
        """The button of a list that shows failed Runs only."""
        if wanted.state != "failed":
            return None
        found = matching(wanted, now)
        if not found:
            return None
        chosen = wanted.address(last=found[0].id)
        more = "+" if len(found) == MOST else ""
        return {"url": self.url("retry_all") + chosen, "number": f"{len(found):,}{more}"}


def matching(wanted: RunFilter, now: dt.datetime) -> list[Run]:
    """Failed Runs that match and that nobody has dealt with, newest first; bounded."""
    failed = dataclasses.replace(wanted, state="failed", before=None)
    runs = failed.page(now, size=MOST).runs
    closed = set(
        DeadLetter.objects.filter(run_id__in=[run.id for run in runs])
        .exclude(resolution=DeadLetter.Resolution.OPEN)
        .values_list("run_id", flat=True)
    )
    return [run for run in runs if run.id not in closed and run.status != State.COMPLETED]
