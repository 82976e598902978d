"""The section Now: what somebody who is woken at night needs to see first."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler import clock
from sync_scheduler.admin import (
    active,
    address,
    coming,
    letters,
    links,
    live,
    marks,
    moments,
    nodes,
    pulse,
    run_rows,
    schedule_rows,
    schedule_state,
    verdict,
)
from sync_scheduler.admin.dead_letters import group_row, many_url
from sync_scheduler.admin.pages import Dashboard, Page
from sync_scheduler.admin.section import Section
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Node, Run, Schedule
from sync_scheduler.models.run import HELD, READY
from sync_scheduler.store.locking import database_now

_HOUR = dt.timedelta(hours=1)
_EVENING = 18
_MOST_MISSED = 5
_LOOKED_AT = 2_000
_MOST_DUE = 12
_STREAK = 5
_MOST_ENDED = 8

RANGES: dict[str, str | Promise] = {
    "1h": gettext_lazy("last hour"),
    "evening": gettext_lazy("since 18:00 yesterday"),
    "24h": gettext_lazy("24 h"),
    "7d": gettext_lazy("7 d"),
}


@admin.register(Dashboard)
class NowAdmin(Page):
    place = "now"
    of = ("run", "schedule")
    ways: ClassVar[dict[str, str]] = {"events": "events/"}

    def events_view(self, request: HttpRequest) -> HttpResponseBase:
        """What pages listen to."""
        return live.answer(self, request)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        now = clock.now()
        chosen = request.GET.get("range", "evening")
        if chosen not in RANGES:
            chosen = "evening"
        since = _since(chosen, now)
        beat, found = pulse.feel(), letters.open_since(since)
        missed = _missed(since)
        database = database_now()
        known = nodes.known(database)
        running = active.read(known, now=now, database=database)
        due = coming.within(now, _HOUR)
        facts = _facts(now, known)
        context = {
            "verdict": verdict.read(
                beat=beat,
                found=found,
                missed=missed["count"],
                known=known,
                stuck=sum(row.is_stuck for row in running),
                due=due,
                since=since,
                now=now,
            ),
            "beat": beat,
            "facts": facts,
            "leader_beat": _leader_beat(beat, known, now),
            "groups": [group_row(self, request, group, now, since) for group in found.groups[:12]],
            "more_groups": max(len(found.groups) - 12, 0),
            "found": found,
            "missed": [_missed_row(self, run, number, now) for run, number in missed["rows"]],
            "missed_count": missed["count"],
            "ranges": links.choices(RANGES, chosen, lambda key: address.query({"range": key})),
            "range_title": RANGES[chosen],
            "retry_all_url": many_url(self, "retry", since, now),
            "missing": "" if self.may(request, "retry_run") else "retry_run",
            "due": _due_rows(self, due[:_MOST_DUE], now),
            "due_count": sum(one.count for one in due),
            "more_due": max(len(due) - _MOST_DUE, 0),
            "running": running,
            "ended": run_rows.rows(_newest_ended(), now=now),
            "steps": None
            if beat.has_ever_led and facts["schedules"]
            else _first_steps(facts, beat),
            "load_url": self.url("changelist", model="load"),
            "hides_banner": True,
        }
        return self.show(request, "sync_scheduler/now.html", title=_("Now"), context=context)


def _since(chosen: str, now: dt.datetime) -> dt.datetime:
    if chosen == "evening":
        local = timezone.localtime(now)
        evening = local.replace(hour=_EVENING, minute=0, second=0, microsecond=0)
        return evening - dt.timedelta(days=1)
    spans = {"1h": _HOUR, "24h": dt.timedelta(hours=24), "7d": dt.timedelta(days=7)}
    return now - spans[chosen]


def _missed(since: dt.datetime) -> dict[str, Any]:
    """Slots that nobody dispatched in time, among the newest ended rows, folded by schedule."""
    newest = (
        Run.objects.filter(finished_at__gte=since)
        .order_by("-finished_at")
        .values_list("id", "status", "reason", "schedule_name")[:_LOOKED_AT]
    )
    by_name: dict[str, list[Any]] = {}
    for run_id, status, reason, name in newest:
        if status == State.SKIPPED and reason in marks.MISSED_REASONS:
            by_name.setdefault(name, []).append(run_id)
    shown = dict(list(by_name.items())[:_MOST_MISSED])
    ids = [found[0] for found in shown.values()]
    rows = Run.objects.filter(id__in=ids).only(*run_rows.COLUMNS).order_by("-id")
    return {
        "count": sum(map(len, by_name.values())),
        "rows": [(run, len(shown[run.schedule_name])) for run in rows] if ids else [],
    }


def _missed_row(section: Section, run: Run, number: int, now: dt.datetime) -> dict[str, Any]:
    url = section.url("change", run.id, model="run")
    if run.schedule_id is not None:
        url = section.url("change", run.schedule_id, model="schedule") + "#slots"
    return {
        "name": run.schedule_name,
        "number": number,
        "url": url,
        "slot": moments.element(run.slot, now=now),
        "why": run_rows.cause(run, now),
        "trigger_url": section.url("trigger", run.schedule_id, model="schedule")
        if run.schedule_id
        else "",
    }


def _due_rows(section: Section, due: list[coming.Coming], now: dt.datetime) -> list[dict[str, Any]]:
    recent = schedule_rows.newest_runs([one.schedule.id for one in due], _STREAK + 3)
    return [_due_row(section, one, recent.get(one.schedule.id, []), now) for one in due]


def _due_row(
    section: Section, one: coming.Coming, recent: list[Run], now: dt.datetime
) -> dict[str, Any]:
    schedule = one.schedule
    more = one.count - 1
    is_late = one.first < now - schedule_state.overdue_after()
    failed = schedule_rows.failed_in_a_row(recent, _STREAK)
    return {
        "name": schedule.name,
        "url": section.url("change", schedule.id, model="schedule"),
        "time": moments.clock_time(one.first),
        "away": marks.OVERDUE.html if is_late else moments.away(one.first, now),
        "more": _("+ %(n)s more to %(at)s") % {"n": f"{more:,}", "at": moments.clock_time(one.last)}
        if more > 0
        else "",
        "failed": _("last %(n)s failed") % {"n": failed} if failed > 1 else "",
    }


def _newest_ended() -> list[Run]:
    ended = Run.objects.filter(finished_at__isnull=False).only(*run_rows.COLUMNS)
    return list(ended.order_by("-finished_at")[:_MOST_ENDED])


def _facts(now: dt.datetime, known: list[Node]) -> dict[str, Any]:
    database = database_now()
    workers = [node for node in known if "work" in node.roles and node.stopped_at is None]
    resting = ~coming.active(now)
    schedules = Schedule.objects.aggregate(all=Count("id"), resting=Count("id", filter=resting))
    # Along the indexes of what is ready and of what waits for others; never over all runs.
    active = Run.objects.filter(READY).aggregate(
        waiting=Count("id", filter=Q(attempt=0, run_at__lte=now)),
        later=Count("id", filter=Q(attempt=0, run_at__gt=now)),
        retrying=Count("id", filter=Q(attempt__gt=0)),
        oldest=Min("run_at", filter=Q(run_at__lte=now)),
    )
    held = Run.objects.filter(HELD).count()
    oldest = active["oldest"]
    return {
        "workers": len(workers),
        "workers_alive": sum(nodes.is_alive(node, database) for node in workers),
        "running": Run.objects.filter(status=State.RUNNING).count(),
        "waiting": active["waiting"] + held,
        "later": active["later"],
        "retrying": active["retrying"],
        "oldest": moments.span((now - oldest).total_seconds()) if oldest else "",
        "schedules": schedules["all"],
        "resting": schedules["resting"],
    }


def _leader_beat(beat: pulse.Pulse, known: list[Node], now: dt.datetime) -> str:
    for node in known:
        if node.name == beat.holder:
            return moments.away(node.heartbeat_at, now)
    return ""


def _first_steps(facts: dict[str, Any], beat: pulse.Pulse) -> list[dict[str, Any]]:
    """For a new installation: what to do, and what is done already."""
    return [
        {
            "text": _("Declare a job with a schedule in a jobs.py of one of your apps."),
            "command": "",
            "is_done": facts["schedules"] > 0,
        },
        {
            "text": _("Bring it into the database."),
            "command": "manage.py migrate",
            "is_done": facts["schedules"] > 0,
        },
        {
            "text": _("Start a scheduler."),
            "command": "manage.py runscheduler",
            "is_done": beat.is_alive,
        },
    ]
