"""Pages without rows of their own, as entries in the admin's list of the app.

Django lists models. These are models in name only: they live in a registry of their own, so that
no migration and no permission is made for them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.apps.registry import Apps
from django.db import models
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from sync_scheduler.admin.section import Section, has_permission

_OWN = Apps()


class Page(Section):
    """The entry itself. Whoever may see one of these kinds of rows may see the page."""

    of: ClassVar[tuple[str, ...]] = ("schedule",)

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return any(
            has_permission(request.user, f"sync_scheduler.{verb}_{model}", None)
            for verb in ("view", "change")
            for model in self.of
        )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> None:
        """There is no table to look into."""
        return


def _entry(name: str, title: str | Promise) -> type[models.Model]:
    """Django sorts entries by title; `dashboard`, which is read at night, comes first."""
    meta = type(
        "Meta",
        (),
        {
            "managed": False,
            "apps": _OWN,
            "app_label": "sync_scheduler",
            "default_permissions": (),
            "verbose_name": title,
            "verbose_name_plural": title,
        },
    )
    return type(name, (models.Model,), {"__module__": __name__, "Meta": meta})


Dashboard = _entry("Dashboard", _("dashboard"))
JobList = _entry("JobList", _("jobs"))
Load = _entry("Load", _("load"))
