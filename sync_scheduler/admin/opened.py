"""Opened: the jobs for which people may write schedules in the admin.

Not every job that can run is meant to be run at a time that somebody chooses on a page. Open are
those that the code itself schedules, and those that the setting ADMIN_JOBS names.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from django.utils.translation import gettext as _

from sync_scheduler import conf
from sync_scheduler.errors import InvalidInput
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job
from sync_scheduler.models import Schedule


def jobs() -> list[Job]:
    return [job for job in registry.all_jobs() if is_open(job)]


def is_open(job: Job) -> bool:
    patterns = conf.get().ADMIN_JOBS
    return bool(job.schedules) or any(fnmatchcase(job.name, pattern) for pattern in patterns)


def refusal(job: Job) -> str:
    return _("The job %(job)s is not open in the admin; see the setting ADMIN_JOBS.") % {
        "job": job.name
    }


def require(schedule: Schedule) -> None:
    """Raises what to tell if it may not be triggered from here."""
    job = registry.find(schedule.job)
    if job is not None and not may_trigger(schedule, job):
        raise InvalidInput(refusal(job))


def may_trigger(schedule: Schedule, job: Job) -> bool:
    """What code has scheduled may be run early; what was written here only while it is open."""
    return schedule.source != Schedule.Source.ADMIN or is_open(job)
