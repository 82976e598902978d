"""The answers that only HTTP gives, beside those of the reports."""

from __future__ import annotations

from typing import Literal, TypedDict

from sync_scheduler.store.reports.runs import History, RunEntry


class Error(TypedDict):
    error: str


class Health(TypedDict):
    status: Literal["ok", "unavailable"]


class ScheduleHistory(History):
    schedule: str


class Cancelled(TypedDict):
    cancelled: bool
    run: RunEntry
