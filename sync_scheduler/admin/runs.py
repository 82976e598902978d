"""The section Runs: the list, and the way to each Run."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from sync_scheduler import clock
from sync_scheduler.admin import durations, run_page, run_rows
from sync_scheduler.admin.run_actions import RunActions
from sync_scheduler.admin.run_filter import RANGES, STATES, WAITING, Page, RunFilter
from sync_scheduler.admin.section import page
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run

_MOST_COUNTED = 1_000
_RUNNING_REFRESH = 2
_PINNED = 10


@admin.register(Run)
class RunAdmin(RunActions):
    place = "runs"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        name = "sync_scheduler_run"
        own = [
            path("<uuid:run_id>/cancel/", view(self.cancel_view), name=f"{name}_cancel"),
            path("<uuid:run_id>/retry/", view(self.retry_view), name=f"{name}_retry"),
            path("<uuid:run_id>/replay/", view(self.replay_view), name=f"{name}_replay"),
        ]
        return [*own, *super().get_urls()]

    @page
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        now = clock.now()
        wanted = RunFilter.read(request.GET.dict())
        found = wanted.page(now)
        habits = durations.habits()
        pinned: list[Run] = []
        if wanted.is_open and wanted.before is None:
            pinned = self._pinned()
        shown = [run for run in found.runs if run.id not in {one.id for one in pinned}]
        usual = durations.usual(habits)
        context = {
            "rows": run_rows.rows(pinned, now=now, usual=usual)
            + run_rows.rows(shown, now=now, usual=usual),
            "wanted": wanted,
            "states": self._states(wanted),
            "ranges": [
                {
                    "title": title,
                    "url": wanted.address(within=key),
                    "is_current": key == wanted.within,
                }
                for key, (title, _span) in RANGES.items()
            ],
            "chips": self._chips(wanted),
            "older": self._older(wanted, found),
            "stopped_early": found.stopped_early,
            "batch": self._batch(wanted),
            "letters_url": self.url("changelist", model="deadletter"),
        }
        return self.show(
            request,
            "admin/sync_scheduler/run/change_list.html",
            title=_("Runs"),
            context=context,
        )

    def _pinned(self) -> list[Run]:
        running = Run.objects.filter(status=State.RUNNING).only(*run_rows.COLUMNS)
        return list(running.order_by("started_at")[:_PINNED])

    def _states(self, wanted: RunFilter) -> list[dict[str, Any]]:
        counted = {
            "failed": DeadLetter.objects.filter(
                resolution=DeadLetter.Resolution.OPEN, kind=DeadLetter.Kind.RUN
            ),
            "running": Run.objects.filter(status=State.RUNNING),
        }
        counts = {key: at_most(query) for key, query in counted.items()}
        counts["waiting"] = at_most(*(Run.objects.filter(part) for part in WAITING))
        every = {"title": _("all"), "url": wanted.address(state=""), "is_current": not wanted.state}
        return [every] + [
            {
                "title": title,
                "url": wanted.address(state=key),
                "is_current": key == wanted.state,
                "count": counts.get(key, ""),
            }
            for key, (title, _statuses) in STATES.items()
        ]

    def _chips(self, wanted: RunFilter) -> list[dict[str, str]]:
        """What is filtered by, each with the list without it."""
        names = {
            "schedule": _("schedule"),
            "job": _("job"),
            "node": _("node"),
            "queue": _("queue"),
            "trigger": _("trigger"),
        }
        found = []
        for field, title in names.items():
            if value := getattr(wanted, field):
                drop = None if field == "schedule" else ""
                found.append(
                    {
                        "title": title,
                        "value": str(value),
                        "url": wanted.address(**{field: drop}),
                    }
                )
        return found

    def _older(self, wanted: RunFilter, found: Page) -> str:
        if found.older is None:
            return ""
        return dataclasses.replace(wanted, before=found.older).address()

    def _batch(self, wanted: RunFilter) -> dict[str, int] | None:
        """How far the runs that somebody retried together have come."""
        if wanted.first is None or wanted.last is None:
            return None
        statuses = list(
            dataclasses.replace(wanted, state="", before=None)
            .query(clock.now())
            .values_list("status", flat=True)[:_MOST_COUNTED]
        )
        ended = [s for s in statuses if s not in {State.SUBMITTED, State.RUNNING}]
        return {
            "all": len(statuses),
            "waiting": statuses.count(State.SUBMITTED),
            "running": statuses.count(State.RUNNING),
            "completed": statuses.count(State.COMPLETED),
            "other": len(ended) - statuses.count(State.COMPLETED),
        }

    @page
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method != "GET":
            # A Run is changed by its own verbs only.
            return HttpResponse(status=405)
        run = self.find(object_id)
        shown = run_page.read(self, request, run)
        refresh = 0 if run.is_finished else _RUNNING_REFRESH
        return self.show(
            request,
            "admin/sync_scheduler/run/change_form.html",
            title=f"{run.schedule_name or run.job} {run.short_id}",
            context=shown,
            crumbs=((_("Runs"), self.url("changelist")),),
            refresh=refresh,
        )


def at_most(*queries: QuerySet[Any]) -> str:
    """How many, as far as it is worth counting."""
    number = sum(len(query.order_by().values_list("pk")[: _MOST_COUNTED + 1]) for query in queries)
    return f"{_MOST_COUNTED:,}+" if number > _MOST_COUNTED else f"{number:,}"
