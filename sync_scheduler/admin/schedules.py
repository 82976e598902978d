"""The section Schedules: the list, and the way to each schedule's page and forms."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import (
    BooleanField,
    Case,
    Count,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from sync_scheduler import clock, lifecycle
from sync_scheduler.admin import schedule_page, schedule_rows, schedule_state
from sync_scheduler.admin.backfills import Backfills
from sync_scheduler.admin.bulk import Bulk
from sync_scheduler.admin.pauses import Pauses
from sync_scheduler.admin.schedule_changes import ScheduleChanges
from sync_scheduler.admin.section import page
from sync_scheduler.admin.triggers import Triggers
from sync_scheduler.models import Run, Schedule

PAGE = 50


@admin.register(Schedule)
class ScheduleAdmin(Triggers, Pauses, Backfills, Bulk, ScheduleChanges):
    place = "schedules"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        name = "sync_scheduler_schedule"
        own = [
            path("bulk/", view(self.bulk_view), name=f"{name}_bulk"),
            path("<int:schedule_id>/edit/", view(self.edit_view), name=f"{name}_edit"),
            path("<int:schedule_id>/revert/", view(self.revert_view), name=f"{name}_revert"),
            path("<int:schedule_id>/backfill/", view(self.backfill_view), name=f"{name}_backfill"),
            path("<int:schedule_id>/trigger/", view(self.trigger_view), name=f"{name}_trigger"),
            path("<int:schedule_id>/pause/", view(self.pause_view), name=f"{name}_pause"),
            path("<int:schedule_id>/resume/", view(self.resume_view), name=f"{name}_resume"),
        ]
        return [*own, *super().get_urls()]

    @page
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        chosen = request.GET.get("show", "")
        text = request.GET.get("q", "").strip()[:200]
        number = _page_number(request.GET.get("page", ""))
        every = _annotated()
        if text:
            every = every.filter(Q(name__icontains=text) | Q(job__icontains=text))
        found = _chosen(every, chosen)
        ordered = found.order_by(
            F("is_troubled").desc(), F("next_run_at").asc(nulls_last=True), "name"
        )
        start = (number - 1) * PAGE
        schedules = list(ordered[start : start + PAGE + 1])
        context = {
            "rows": schedule_rows.rows(schedules[:PAGE], clock.now()),
            "links": _links(every, chosen, text),
            "text": text,
            "chosen": chosen,
            "older": _address(chosen, text, number + 1) if len(schedules) > PAGE else "",
            "newer": _address(chosen, text, number - 1) if number > 1 else "",
            "may_add": self.has_add_permission(request),
            "add_url": self.url("add"),
            "bulk_url": self.url("bulk"),
            "runs_url": self.url("changelist", model="run"),
            "may_trigger": self.may(request, "trigger_schedule"),
            "may_pause": self.may(request, "pause_schedule"),
        }
        return self.show(
            request,
            "admin/sync_scheduler/schedule/change_list.html",
            title=_("Schedules"),
            context=context,
        )

    @page
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method != "GET":
            return HttpResponse(status=405)
        schedule = self.find(object_id)
        return self.show(
            request,
            "admin/sync_scheduler/schedule/change_form.html",
            title=schedule.name,
            context=schedule_page.read(self, request, schedule),
            crumbs=((_("Schedules"), self.url("changelist")),),
        )


def _annotated() -> QuerySet[Schedule]:
    """Schedules with how their last run ended; a step into an index for each."""
    now = clock.now()
    last = (
        Run.objects.filter(schedule_id=OuterRef("id"), status__in=schedule_rows.ENDED)
        .order_by("-id")
        .values("status")[:1]
    )
    active = Q(enabled=True) & (Q(paused_at__isnull=True) | Q(paused_until__lte=now))
    late = Q(next_run_at__lt=now - schedule_state.overdue_after())
    return Schedule.objects.annotate(last_status=Subquery(last)).annotate(
        is_failing=_flag(active & Q(last_status__in=tuple(lifecycle.FAILURES))),
        is_overdue=_flag(active & (late | ~Q(error=""))),
        is_resting=_flag(~active),
        is_troubled=_flag(
            active & (late | ~Q(error="") | Q(last_status__in=tuple(lifecycle.FAILURES)))
        ),
    )


def _flag(condition: Q) -> Case:
    return Case(
        When(condition, then=Value(True)), default=Value(False), output_field=BooleanField()
    )


def _chosen(every: QuerySet[Schedule], chosen: str) -> QuerySet[Schedule]:
    filters: dict[str, Q] = {
        "failing": Q(is_failing=True),
        "overdue": Q(is_overdue=True),
        "paused": Q(is_resting=True),
        "code": Q(source=Schedule.Source.CODE),
        "database": ~Q(source=Schedule.Source.CODE),
    }
    return every.filter(filters[chosen]) if chosen in filters else every


def _links(every: QuerySet[Schedule], chosen: str, text: str) -> list[dict[str, Any]]:
    counts = every.aggregate(
        all=Count("id"),
        failing=Count("id", filter=Q(is_failing=True)),
        overdue=Count("id", filter=Q(is_overdue=True)),
        paused=Count("id", filter=Q(is_resting=True)),
        code=Count("id", filter=Q(source=Schedule.Source.CODE)),
        database=Count("id", filter=~Q(source=Schedule.Source.CODE)),
    )
    titles = {
        "": _("all"),
        "failing": _("failing"),
        "overdue": _("overdue or broken"),
        "paused": _("paused or off"),
        "code": _("from code"),
        "database": _("from the database"),
    }
    return [
        {
            "title": title,
            "url": _address(key, text),
            "count": counts[key or "all"],
            "is_current": key == chosen,
        }
        for key, title in titles.items()
    ]


def _address(chosen: str, text: str, number: int = 1) -> str:
    given = {"show": chosen, "q": text, "page": number if number > 1 else ""}
    return "?" + urlencode({name: value for name, value in given.items() if value})


def _page_number(text: str) -> int:
    return max(int(text), 1) if text.isdecimal() and len(text) < 6 else 1
