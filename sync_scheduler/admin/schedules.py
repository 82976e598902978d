"""The section Schedules: the list, and the way to each schedule's page and forms."""

from __future__ import annotations

from typing import ClassVar

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
from django.utils.translation import gettext as _

from sync_scheduler import clock, lifecycle
from sync_scheduler.admin import links, schedule_page, schedule_rows, schedule_state
from sync_scheduler.admin.address import number, query
from sync_scheduler.admin.backfills import Backfills
from sync_scheduler.admin.bulk import Bulk
from sync_scheduler.admin.pauses import Pauses
from sync_scheduler.admin.schedule_changes import ScheduleChanges
from sync_scheduler.admin.triggers import Triggers
from sync_scheduler.models import Run, Schedule

PAGE = 50
_LAST_PAGE = 100_000


@admin.register(Schedule)
class ScheduleAdmin(Triggers, Pauses, Backfills, Bulk, ScheduleChanges):
    place = "schedules"

    ways: ClassVar[dict[str, str]] = {
        "bulk": "bulk/",
        **{
            verb: f"<int:schedule_id>/{verb}/"
            for verb in ("edit", "revert", "backfill", "trigger", "pause", "resume")
        },
    }

    def show_list(self, request: HttpRequest) -> HttpResponse:
        chosen = request.GET.get("show", "")
        text = request.GET.get("q", "").strip()[:200]
        current = _page_number(request.GET.get("page", ""))
        every = _annotated()
        if text:
            every = every.filter(Q(name__icontains=text) | Q(job__icontains=text))
        found = _chosen(every, chosen)
        ordered = found.order_by(
            F("is_troubled").desc(), F("next_run_at").asc(nulls_last=True), "name"
        )
        start = (current - 1) * PAGE
        schedules = list(ordered[start : start + PAGE + 1])
        context = {
            "rows": schedule_rows.rows(schedules[:PAGE], clock.now()),
            "links": _links(every, chosen, text),
            "text": text,
            "chosen": chosen,
            "older": _address(chosen, text, current + 1) if len(schedules) > PAGE else "",
            "newer": _address(chosen, text, current - 1) if current > 1 else "",
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

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        schedule = self.find(object_id)
        return self.show(
            request,
            "admin/sync_scheduler/schedule/change_form.html",
            title=schedule.name,
            context=schedule_page.read(self, request, schedule),
            crumbs=((_("Schedules"), self.url("changelist")),),
            about=schedule,
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


def _links(every: QuerySet[Schedule], chosen: str, text: str) -> list[links.Link]:
    counts = every.aggregate(
        every=Count("id"),
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
    shown = {key: f"{counts[key or 'every']:,}" for key in titles}
    return links.choices(titles, chosen, lambda key: _address(key, text), shown)


def _address(chosen: str, text: str, page: int = 1) -> str:
    return query({"show": chosen, "q": text, "page": page if page > 1 else ""})


def _page_number(text: str) -> int:
    return min(max(number(text) or 1, 1), _LAST_PAGE)
