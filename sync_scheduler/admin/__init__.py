"""What people see and do in the Django admin."""

from sync_scheduler.admin.dead_letters import DeadLetterAdmin
from sync_scheduler.admin.jobs import JobsAdmin
from sync_scheduler.admin.load_map import LoadAdmin
from sync_scheduler.admin.nodes import NodeAdmin
from sync_scheduler.admin.now import NowAdmin
from sync_scheduler.admin.runs import RunAdmin
from sync_scheduler.admin.schedules import ScheduleAdmin

__all__ = [
    "DeadLetterAdmin",
    "JobsAdmin",
    "LoadAdmin",
    "NodeAdmin",
    "NowAdmin",
    "RunAdmin",
    "ScheduleAdmin",
]
