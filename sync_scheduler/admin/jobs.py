"""The section Jobs: every registered job with its policy, its habits and who serves it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from sync_scheduler.admin import durations, moments, nodes
from sync_scheduler.admin.pages import JobList, Page
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job
from sync_scheduler.models import Node, Schedule
from sync_scheduler.store.locking import database_now


@admin.register(JobList)
class JobsAdmin(Page):
    place = "jobs"

    def show_list(self, request: HttpRequest) -> HttpResponse:
        now, habits = database_now(), durations.habits()
        alive = [node for node in nodes.known(now) if nodes.is_alive(node, now)]
        schedules = dict(
            Schedule.objects.order_by()
            .values("job")
            .annotate(n=Count("id"))
            .values_list("job", "n")
        )
        rows = [
            self._row(job, habits.get(job.name), alive, schedules.get(job.name, 0))
            for job in registry.all_jobs()
        ]
        lost = sorted(set(schedules) - registry.known_names())
        context = {
            "rows": rows,
            "sample": durations.SAMPLE,
            "lost": [name for name in lost if not name.startswith("celery:")],
        }
        return self.show(request, "sync_scheduler/jobs.html", title=_("Jobs"), context=context)

    def _row(
        self, job: Job, habit: durations.Habit | None, alive: list[Node], schedules: int
    ) -> dict[str, Any]:
        queue = job.policy.queue
        serving = [
            node.name
            for node in alive
            if "work" in node.roles
            and job.name in node.jobs
            and (not node.queues or queue in node.queues)
        ]
        return {
            # Never the job itself: a template calls whatever can be called.
            "name": job.name,
            "where": job.where,
            "queue": queue,
            "policy": policy_in_words(job),
            "usual": moments.took(habit.usual) if habit else "",
            "ended": habit.ended if habit else 0,
            "rate": f"{habit.failure_rate:.0%}" if habit else "",
            "is_failing": bool(habit and habit.failed),
            "serving": serving,
            "schedules": schedules,
            "runs_url": f"{self.url('changelist', model='run')}?job={job.name}",
            "schedules_url": f"{self.url('changelist', model='schedule')}?q={job.name}",
        }


def policy_in_words(job: Job) -> list[str]:
    """What is out of the ordinary about how its runs are treated."""
    policy = job.policy
    parts = []
    if policy.priority:
        parts.append(_("priority %(n)s") % {"n": policy.priority})
    if policy.max_attempts > 1:
        parts.append(_("%(n)s attempts") % {"n": policy.max_attempts})
    if policy.timeout is not None:
        parts.append(_("timeout %(span)s") % {"span": moments.took(policy.timeout)})
    if policy.atomic:
        parts.append(_("atomic"))
    if policy.concurrency is not None:
        parts.append(_("at most %(n)s at once") % {"n": policy.concurrency})
    if policy.rate_limit is not None:
        parts.append(_("limited in rate"))
    if job.is_async:
        parts.append(_("async"))
    return parts
