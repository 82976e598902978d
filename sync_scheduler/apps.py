"""Start-up: find the jobs, hang in the checks, apply declared schedules after `migrate`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class SyncSchedulerConfig(AppConfig):
    name = "sync_scheduler"
    label = "sync_scheduler"
    verbose_name = _("Scheduler")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from sync_scheduler import checks  # noqa: F401  # registers them
        from sync_scheduler.processes import in_server

        autodiscover_modules("jobs")
        post_migrate.connect(
            _apply_declared, sender=self, dispatch_uid="sync_scheduler.apply_declared"
        )
        in_server.start_if_wanted()


def _apply_declared(*, using: str, **_: Any) -> None:
    """`migrate` has run: bring declared schedules into the database that holds them."""
    from sync_scheduler import conf
    from sync_scheduler.intake import declared
    from sync_scheduler.models import Schedule

    if conf.faults() or using != conf.get().DATABASE:
        return
    # Migrating backwards, or only a part of the way, may have left no table to write to.
    if Schedule._meta.db_table in connections[using].introspection.table_names():
        declared.apply(is_migrating=True)
