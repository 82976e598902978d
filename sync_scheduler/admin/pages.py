"""Pages without rows of their own, as entries in the admin's list of the app.

Django lists models. These are models in name only: they live in a registry of their own, so that
no migration and no permission is made for them.
"""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import models
from django.utils.translation import gettext_lazy as _

_OWN = Apps()


class Dashboard(models.Model):
    class Meta:
        managed = False
        apps = _OWN
        app_label = "sync_scheduler"
        default_permissions = ()
        # Django sorts by name; the page that is read at night comes first.
        verbose_name = verbose_name_plural = _("dashboard")

    def __str__(self) -> str:
        return "dashboard"


class JobList(models.Model):
    class Meta:
        managed = False
        apps = _OWN
        app_label = "sync_scheduler"
        default_permissions = ()
        verbose_name = verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return "jobs"


class Load(models.Model):
    class Meta:
        managed = False
        apps = _OWN
        app_label = "sync_scheduler"
        default_permissions = ()
        verbose_name = verbose_name_plural = _("load")

    def __str__(self) -> str:
        return "load"
