"""Distributed cron and durable jobs for Django.

Importing this touches no model and no server, so that `jobs.py` of an app may be imported from
its `models.py`.
"""

from sync_scheduler.errors import (
    InvalidInput,
    JoinTimeout,
    KeyConflict,
    ScheduleExists,
    SchedulerError,
    UnknownJob,
)
from sync_scheduler.jobs.backoff import exponential, fixed
from sync_scheduler.jobs.context import JobContext
from sync_scheduler.jobs.control import Cancel, Retry
from sync_scheduler.jobs.decorator import job
from sync_scheduler.jobs.target import celery
from sync_scheduler.timing.rules import cron, every, once

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "InvalidInput",
    "JobContext",
    "JoinTimeout",
    "KeyConflict",
    "Retry",
    "ScheduleExists",
    "SchedulerError",
    "UnknownJob",
    "celery",
    "cron",
    "every",
    "exponential",
    "fixed",
    "job",
    "once",
]
