"""What people do to a Run: cancel it, retry it, run it again with another input."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler import conf
from sync_scheduler.admin import marks, run_rows
from sync_scheduler.admin.input_form import InputForm
from sync_scheduler.admin.section import Section, page
from sync_scheduler.admin.tokens import TokenField
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake import runs as intake
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job, Options
from sync_scheduler.lifecycle import Trigger
from sync_scheduler.models import DeadLetter, Run
from sync_scheduler.store import dead_letters


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=300,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Kept with the run, with your name and the time."),
    )


class RetryForm(forms.Form):
    token = TokenField()


class RunActions(Section):
    """Each action has a page of its own; GET explains, POST acts."""

    @page
    def cancel_view(self, request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
        run = self.find(run_id)
        self.require(request, "cancel_run", run)
        form = ReasonForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            reason = form.cleaned_data["reason"]
            if run.cancel(reason=reason, by=request.user.get_username()):
                self.log_change(request, run, f"Cancelled: {reason}")
                messages.success(request, _("The run is cancelled."))
            else:
                messages.warning(
                    request,
                    _("The run had already ended (%(status)s); nothing was changed.")
                    % {"status": run.get_status_display()},
                )
            return self.to_run(run)
        facts = [_("A handler that is running is told to stop, and its outcome is not kept.")]
        return self._ask(request, run, form, _("Cancel the run"), _("Cancel the run"), facts)

    @page
    def retry_view(self, request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
        run = self.find(run_id)
        self.require(request, "retry_run", run)
        form = RetryForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                new = self.retry(request, run, form.cleaned_data["token"])
            except SchedulerError as error:
                messages.error(request, str(error))
                return self.to_run(run)
            self._announce(request, new)
            return self.to_run(new)
        facts = [
            _("A new run with the same input is submitted; this one stays as it is."),
            _("Attempts start again at 1 of %(max)s.") % {"max": run.max_attempts},
        ]
        return self._ask(request, run, form, _("Retry the run"), _("Retry"), facts)

    def retry(self, request: HttpRequest, run: Run, token: str) -> Run:
        """Retry it once: whoever sends the same form again gets the Run that the first one made."""
        if not run_rows.can_retry(run):
            raise SchedulerError(
                _("The run is %(status)s; only failed and cancelled runs can be retried.")
                % {"status": run.get_status_display()}
            )
        by = request.user.get_username()
        with transaction.atomic(using=conf.get().DATABASE):
            new = self._submit_again(run, registry.get(run.job), run.input, token, {"by": by})
            dead_letters.resolve(
                DeadLetter.objects.filter(run_id=run.id).values_list("id", flat=True),
                DeadLetter.Resolution.RETRIED,
                by=by,
            )
        self.log_change(request, run, f"Retried as {new.id}")
        return new

    def _submit_again(
        self, run: Run, job: Job, given: dict[str, Any], token: str, meta: dict[str, Any]
    ) -> Run:
        """A new Run that is linked to the old one; the token of the form is its key."""
        origin = intake.Origin(
            trigger=Trigger.RETRY,
            schedule_id=run.schedule_id,
            schedule_name=run.schedule_name,
            guard=run.guard,
            retry_of=run.id,
        )
        options = Options(
            key=f"retry:{run.id}:{token}",
            queue=run.queue,
            priority=run.priority,
            timeout=run.timeout_seconds,
            meta={**run.meta, **meta},
        )
        return intake.submit(job, given, options, origin)

    @page
    def replay_view(self, request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
        """The same job again with an input that can be edited first."""
        run = self.find(run_id)
        self.require(request, "retry_run", run)
        self.require(request, "view_payload", run)
        job = registry.find(run.job)
        if job is None:
            messages.error(request, _("No job of this name is registered here."))
            return self.to_run(run)
        form = InputForm(request.POST or None, job=job, stored=run.input)
        if request.method == "POST" and form.is_valid():
            meta = {"by": request.user.get_username(), "why": form.cleaned_data["reason"]}
            try:
                token = form.cleaned_data["token"]
                new = self._submit_again(run, job, form.encoded, token, meta)
            except SchedulerError as error:
                form.add_error(None, str(error))
            else:
                self.log_change(request, run, f"Run again with another input as {new.id}")
                self._announce(request, new)
                return self.to_run(new)
        facts = [_("A new run with the input below is submitted; this one stays as it is.")]
        title = _("Run again with another input")
        return self._ask(request, run, form, title, _("Run again"), facts)

    # ------------------------------------------------------------------ around them

    def find(self, run_id: str | uuid.UUID) -> Run:
        try:
            wanted = run_id if isinstance(run_id, uuid.UUID) else uuid.UUID(run_id)
        except ValueError as error:
            raise Http404(_("This is not the id of a run.")) from error
        run = Run.objects.filter(id=wanted).first()
        if run is None:
            raise Http404(_("There is no such run, or it was removed after its time."))
        return run

    def to_run(self, run: Run) -> HttpResponseRedirect:
        return HttpResponseRedirect(self.url("change", run.id, model="run"))

    def _announce(self, request: HttpRequest, run: Run) -> None:
        messages.success(
            request,
            format_html(
                _('Submitted as <a href="{}">run {}</a>.'),
                self.url("change", run.id, model="run"),
                run.short_id,
            ),
        )

    def _ask(
        self,
        request: HttpRequest,
        run: Run,
        form: forms.Form,
        title: str,
        button: str,
        facts: list[Any],
    ) -> HttpResponse:
        name = f"{run.schedule_name or run.job} {run.short_id}"
        mark = marks.of_run(run.status, attempt=run.attempt, reason=run.reason)
        return self.show(
            request,
            "sync_scheduler/confirm.html",
            title=title,
            context={
                "form": form,
                "subject": name,
                "subject_state": mark.html,
                "facts": facts,
                "button": button,
                "back": self.url("change", run.id, model="run"),
            },
            crumbs=(
                (_("Runs"), self.url("changelist", model="run")),
                (name, self.url("change", run.id, model="run")),
            ),
            refresh=0,
        )
