"""Changing what a schedule is: adding, editing with a preview, going back to the code, removing."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _

from sync_scheduler import clock, conf
from sync_scheduler.admin import schedule_preview, schedule_state
from sync_scheduler.admin.schedule_form import OWN_NAMES, ScheduleForm, initial_of, known_zones
from sync_scheduler.admin.schedule_section import ScheduleSection
from sync_scheduler.admin.section import page
from sync_scheduler.errors import InvalidRule, SchedulerError
from sync_scheduler.intake import schedules as intake
from sync_scheduler.intake.declared import drift
from sync_scheduler.jobs import registry
from sync_scheduler.models import Schedule
from sync_scheduler.models.schedule import RULE_FIELDS
from sync_scheduler.store import edits, registrations
from sync_scheduler.store.registrations import Definition
from sync_scheduler.timing.rules import Rule


class ScheduleChanges(ScheduleSection):
    """GET shows the form, "Check" recomputes it, POST saves."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "add_schedule", obj)

    # ------------------------------------------------------------------ adding

    @page
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        # Whoever writes a new schedule writes its input too.
        initial = {
            "kind": Schedule.Kind.CRON,
            "timezone": timezone.get_default_timezone_name(),
            "enabled": True,
            "max_catch_up": 100,
            "input": "{}",
            "unit": "minutes",
        }
        form = ScheduleForm(
            request.POST or None, schedule=None, may_see_input=True, initial=initial
        )
        if request.method == "POST" and form.is_valid() and "_check" not in request.POST:
            try:
                schedule = self._add(form.definition)
            except SchedulerError as error:
                form.add_error(None, str(error))
            else:
                self.log_addition(request, schedule, "Added")
                self._tell_next(request, schedule, _("Added."))
                return self.to_schedule(schedule)
        return self._form_page(request, form, None, _("Add a schedule"))

    def _add(self, definition: Definition | None) -> Schedule:
        assert definition is not None  # noqa: S101  # a valid form has one
        values = definition.values
        return intake.add(
            definition.name,
            job=registry.get(values["job"]),
            rule=_rule_of(definition),
            source=Schedule.Source.ADMIN,
        )

    # ------------------------------------------------------------------ editing

    @page
    def edit_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        schedule = self.find(schedule_id)
        self.require(request, "change_schedule", schedule)
        form = ScheduleForm(
            request.POST or None,
            schedule=schedule,
            may_see_input=self.may(request, "view_payload", schedule),
        )
        if request.method == "POST" and form.is_valid() and "_check" not in request.POST:
            try:
                saved = self._save(form, schedule)
            except InvalidRule as error:
                form.add_error(None, str(error))
                return self._form_page(request, form, schedule, _("Edit"))
            if saved is not None:
                changed = _changed_names(schedule, saved)
                self.log_change(request, saved, f"Changed {', '.join(changed) or 'nothing'}")
                self._tell_next(request, saved, _("Saved."))
                return self.to_schedule(saved)
            current = self.find(schedule_id)
            return self._form_page(request, form, current, _("Edit"), conflict=True)
        return self._form_page(request, form, schedule, _("Edit"))

    def _save(self, form: ScheduleForm, schedule: Schedule) -> Schedule | None:
        definition = form.definition
        assert definition is not None  # noqa: S101  # a valid form has one
        values = {**definition.values, "enabled": definition.enabled}
        if schedule_preview.keeps_anchor(definition, schedule):
            del values["anchor_at"]
        if form.is_from_code:
            values = {name: value for name, value in values.items() if name not in RULE_FIELDS}
        seen = form.cleaned_data.get("version")
        with transaction.atomic(using=conf.get().DATABASE):
            saved = self._edit(schedule, seen or 0, values)
            if (
                saved is not None
                and saved.enabled
                and saved.next_run_at is None
                and RULE_FIELDS.intersection(_changed_names(schedule, saved))
            ):
                raise registrations.never_fires(saved.name)
        return saved

    def _edit(self, schedule: Schedule, seen: int, values: dict[str, Any]) -> Schedule | None:
        saved = edits.edit(schedule.id, seen_version=seen, values=values)
        if saved is not None and saved.version != seen:
            intake.edited(saved)
        return saved

    def _form_page(
        self,
        request: HttpRequest,
        form: ScheduleForm,
        schedule: Schedule | None,
        title: str,
        *,
        conflict: bool = False,
    ) -> HttpResponse:
        preview = self._preview(form, schedule)
        kind = str(form["kind"].value() or "cron")
        own = {name for names in OWN_NAMES.values() for name in names}
        back = self.url("changelist", model="schedule")
        crumbs: tuple[tuple[str, str], ...] = ((_("Schedules"), back),)
        if schedule is not None:
            back = self.url("change", schedule.id, model="schedule")
            crumbs = (*crumbs, (schedule.name, back))
        return self.show(
            request,
            "sync_scheduler/schedule_form.html",
            title=title,
            context={
                "form": form,
                "schedule": schedule,
                "kinds": [
                    {
                        "key": key,
                        "title": label,
                        "fields": [form[name] for name in OWN_NAMES[key]],
                        "is_chosen": key == kind,
                    }
                    for key, label in Schedule.Kind.choices
                ],
                "first": [form[name] for name in ("name", "job", "kind")],
                "zone": [form["timezone"]],
                "rest": [
                    form[name]
                    for name in form.fields
                    if name not in {"name", "job", "kind", "timezone", "version", *own}
                ],
                "zones": sorted(known_zones()),
                "preview": preview,
                "is_from_code": form.is_from_code,
                "conflict": initial_of(schedule) if conflict and schedule is not None else None,
                "conflict_names": ("kind", "expression", "every", "unit", "timezone", "enabled"),
                "back": back,
            },
            crumbs=crumbs,
            refresh=0,
        )

    def _preview(
        self, form: ScheduleForm, schedule: Schedule | None
    ) -> schedule_preview.Preview | None:
        definition = form.definition
        if definition is None and schedule is not None and not form.is_bound:
            # The form as it was opened: what the schedule does now.
            unchanged = ScheduleForm(
                {k: v for k, v in initial_of(schedule).items() if v is not None and v is not False},
                schedule=schedule,
                may_see_input="input" in form.fields,
            )
            unchanged.is_valid()
            definition = unchanged.definition
        if definition is None:
            return None
        return schedule_preview.read(definition, schedule, clock.now())

    # ------------------------------------------------------------------ back to code, removing

    @page
    def revert_view(self, request: HttpRequest, schedule_id: int) -> HttpResponse:
        """Undo what was changed here against the code that declares the schedule."""
        schedule = self.find(schedule_id)
        self.require(request, "change_schedule", schedule)
        differs = drift(schedule)
        if request.method == "POST" and differs:
            values = {name: _typed(name, code) for name, (code, _row) in differs.items()}
            saved = self._edit(schedule, schedule.version, values)
            if saved is not None:
                self.log_change(request, saved, f"Back to the code: {', '.join(differs)}")
                self._tell_next(request, saved, _("The schedule is as the code declares it."))
            return self.to_schedule(schedule)
        facts = [
            _("%(name)s becomes %(code)s.") % {"name": name, "code": code}
            for name, (code, _row) in differs.items()
            if name not in {"input", "meta"}
        ]
        facts += [
            _("%(name)s becomes what the code says.") % {"name": name}
            for name in differs
            if name in {"input", "meta"}
        ]
        return self.ask(
            request,
            schedule,
            forms.Form(),
            title=_("Back to code"),
            button=_("Back to code"),
            facts=facts or [_("Nothing differs from the code.")],
        )

    @page
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        schedule = self.find(object_id)
        self.require(request, "delete_schedule", schedule)
        if request.method == "POST":
            self.log_change(request, schedule, f"Removed the schedule {schedule.name}")
            Schedule.objects.unregister(schedule.name)
            messages.success(request, _("%(name)s was removed.") % {"name": schedule.name})
            return HttpResponseRedirect(self.url("changelist"))
        facts = [_("Runs that it has dispatched go on, and their history stays.")]
        if schedule.source == Schedule.Source.CODE:
            facts.append(
                _(
                    "It is declared in code: the next start of a node brings it back."
                    " To keep it from running, switch it off instead."
                )
            )
        return self.ask(
            request,
            schedule,
            forms.Form(),
            title=_("Remove"),
            button=_("Remove the schedule"),
            facts=facts,
        )

    # ------------------------------------------------------------------ afterwards

    def _tell_next(self, request: HttpRequest, schedule: Schedule, done: str) -> None:
        shown = schedule_state.next_run(schedule, clock.now())
        messages.success(request, format_html(_("{} Next run: {}."), done, shown))


def _rule_of(definition: Definition) -> Rule:
    """The definition as a rule again, for the door through which schedules are born."""
    values = definition.values
    return Rule(
        kind=values["kind"],
        expression=values["expression"],
        timezone=values["timezone"],
        anchor=values["anchor_at"] if definition.is_anchored else None,
        input=values["input"],
        misfire=values["misfire"],
        max_catch_up=values["max_catch_up"],
        overlap=values["overlap"],
        jitter=values["jitter_seconds"],
        start_at=values["start_at"],
        end_at=values["end_at"],
        enabled=definition.enabled,
    )


def _changed_names(before: Schedule, after: Schedule) -> list[str]:
    names = (*RULE_FIELDS, "job", "input", "misfire", "max_catch_up", "overlap", "enabled")
    return sorted(n for n in names if getattr(before, n) != getattr(after, n))


def _typed(name: str, value: Any) -> Any:
    if name.endswith("_at") and isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    return value
