"""The section Runs: the list, and the way to each Run."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from sync_scheduler import clock
from sync_scheduler.admin import durations, links, run_export, run_page, run_rows
from sync_scheduler.admin.run_batches import RunBatches
from sync_scheduler.admin.run_filter import RANGES, STATES, WAITING, Page, RunFilter
from sync_scheduler.admin.section import page
from sync_scheduler.lifecycle import State
from sync_scheduler.models import DeadLetter, Run

_MOST_COUNTED = 1_000
_RUNNING_REFRESH = 2
_PINNED = 10


@admin.register(Run)
class RunAdmin(RunBatches):
    place = "runs"

    ways: ClassVar[dict[str, str]] = {
        "cancel": "<uuid:run_id>/cancel/",
        "retry": "<uuid:run_id>/retry/",
        "replay": "<uuid:run_id>/replay/",
        "export": "export/",
        "retry_all": "retry-all/",
    }

    @page
    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The list as a file."""
        return run_export.answer(request, RunFilter.read(request.GET.dict()), clock.now())

    def show_list(self, request: HttpRequest) -> HttpResponse:
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
            "ranges": links.choices(
                {key: title for key, (title, _span) in RANGES.items()},
                wanted.within,
                lambda key: wanted.address(within=key),
            ),
            "chips": self._chips(wanted),
            "older": self._older(wanted, found),
            "retry_all": self.retry_all_link(wanted, now),
            "missing": "" if self.may(request, "retry_run") else "retry_run",
            "export_url": self.url("export") + wanted.address(before=None),
            "export_most": f"{run_export.MOST:,}",
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

    def _states(self, wanted: RunFilter) -> list[links.Link]:
        counted = {
            "failed": DeadLetter.objects.filter(
                resolution=DeadLetter.Resolution.OPEN, kind=DeadLetter.Kind.RUN
            ),
            "running": Run.objects.filter(status=State.RUNNING),
        }
        counts = {key: at_most(query) for key, query in counted.items()}
        counts["waiting"] = at_most(*(Run.objects.filter(part) for part in WAITING))
        titles = {key: title for key, (title, _statuses) in STATES.items()}
        return links.choices(
            {"": _("all"), **titles}, wanted.state, lambda key: wanted.address(state=key), counts
        )

    def _chips(self, wanted: RunFilter) -> list[dict[str, str]]:
        """What is filtered by, each with the list without it."""
        names = {
            "schedule": _("schedule"),
            "job": _("job"),
            "node": _("node"),
            "queue": _("queue"),
            "trigger": _("trigger"),
            "cause": _("cause"),
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

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
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
            about=run,
        )


def at_most(*queries: QuerySet[Any]) -> str:
    """How many, as far as it is worth counting."""
    number = sum(len(query.order_by().values_list("pk")[: _MOST_COUNTED + 1]) for query in queries)
    return f"{_MOST_COUNTED:,}+" if number > _MOST_COUNTED else f"{number:,}"
