"""Changing what a schedule is: adding, editing, removing, filling gaps."""

from __future__ import annotations

from sync_scheduler.admin.schedule_actions import ScheduleActions


class ScheduleChanges(ScheduleActions):
    pass
