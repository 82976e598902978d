"""Start-up: find the jobs, hang in the checks, apply declared schedules after `migrate`."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class SyncSchedulerConfig(AppConfig):
    name = "sync_scheduler"
    label = "sync_scheduler"
    verbose_name = _("Scheduler")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from sync_scheduler import checks  # noqa: F401  # registers them

        autodiscover_modules("jobs")
