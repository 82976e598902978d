"""Section: what every part of the scheduler in the admin has in common.

Pages are rendered here, so that each has the same navigation, the same warning when nothing
dispatches, and the same answer when the database cannot be read. Rows are shown, and changed by
the verbs of `intake` and `store` only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from sync_scheduler import clock, conf
from sync_scheduler.admin import live, moments
from sync_scheduler.admin.pulse import Pulse, feel
from sync_scheduler.models import Run, Schedule

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

    SchedulerAdmin = ModelAdmin[Any]
else:
    # Django's ModelAdmin takes no parameter at run time.
    SchedulerAdmin = ModelAdmin

logger = logging.getLogger(__name__)

P = ParamSpec("P")
S = TypeVar("S", bound="Section")
R = TypeVar("R", bound=HttpResponseBase)

REFRESH_SECONDS = 15
_REFRESH_CHOICES = frozenset({"2", "5", "15", "60"})


def page(
    view: Callable[Concatenate[S, HttpRequest, P], R],
) -> Callable[Concatenate[S, HttpRequest, P], R]:
    """A view that needs the permission to look, and says so when the database does not answer."""

    @wraps(view)
    def guarded(
        self: S, request: HttpRequest, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            response: HttpResponseBase = view(self, request, *args, **kwargs)
            if isinstance(response, TemplateResponse):
                # Rows are read while the page is written, so that belongs under the same guard.
                response = response.render()
        except (DatabaseError, InterfaceError) as error:
            logger.exception("a page of the scheduler could not be read")
            return self.unreadable(request, error)
        _last_good["at"] = clock.now()
        return response

    # What is typed into a form may be a secret; the mail about an error must not quote it.
    discreet = method_decorator(sensitive_post_parameters())(guarded)
    return cast("Callable[Concatenate[S, HttpRequest, P], R]", discreet)


_last_good: dict[str, Any] = {}


class Section(SchedulerAdmin):
    """A part of the scheduler in the admin."""

    show_full_result_count = False
    actions = None
    # Which entry of the navigation is current.
    place = ""
    # Pages of rows that change by themselves are read again every so many seconds.
    refreshes = True
    # What else can be asked for under the section's address: verb and route. `<verb>_view` answers.
    ways: ClassVar[dict[str, str]] = {}

    # ------------------------------------------------------------------ permissions

    def may(self, request: HttpRequest, permission: str, obj: Model | None = None) -> bool:
        """Whether the user may do this, in general or to this row.

        Override it to decide by row; every button, page and bulk action asks here.
        """
        return has_permission(request.user, f"{self.opts.app_label}.{permission}", obj)

    def require(self, request: HttpRequest, permission: str, obj: Model | None = None) -> None:
        if not self.may(request, permission, obj):
            raise PermissionDenied

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_view_permission(request, obj) or super().has_change_permission(
            request, obj
        )

    # ------------------------------------------------------------------ pages

    def get_urls(self) -> list[URLPattern]:
        own = [
            path(
                route,
                self.admin_site.admin_view(getattr(self, f"{verb}_view")),
                name=f"{self.opts.app_label}_{self.opts.model_name}_{verb}",
            )
            for verb, route in self.ways.items()
        ]
        return [*own, *super().get_urls()]

    @page
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return self.show_list(request)

    @page
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            # A row is changed by its own verbs only.
            return HttpResponse(status=405)
        return self.show_row(request, object_id)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        raise NotImplementedError

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of one row; without one of its own, the list says everything."""
        return HttpResponseRedirect(self.url("changelist"))

    def url(self, name: str, *args: object, model: str = "") -> str:
        """The address of a page of the scheduler in this admin site."""
        model = model or str(self.opts.model_name)
        return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{model}_{name}", args=args)

    def show(
        self,
        request: HttpRequest,
        template: str,
        *,
        title: str,
        context: Mapping[str, Any] | None = None,
        status: int = 200,
        crumbs: tuple[tuple[str, str], ...] = (),
        refresh: int | None = None,
        about: Run | Schedule | None = None,
    ) -> TemplateResponse:
        """A page with everything around it. `refresh` in seconds; 0: it does not change.

        `about`: whose news the page follows; None: everybody's.
        """
        now, pulse = clock.now(), feel()
        seconds = self._refresh(request, refresh)
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "app_title": apps.get_app_config(self.opts.app_label).verbose_name,
                "title": title,
                "now": now,
                "shown_at": moments.exact(now, now=now, seconds=True),
                "pulse": pulse,
                "places": self._places(request, pulse),
                "crumbs": crumbs,
                "refresh": seconds,
                "live": live.address(self, request, about) if seconds else "",
                "refreshes_without_script": seconds and "refresh" in request.GET,
                "here": request.get_full_path(),
                **(context or {}),
            },
            status=status,
        )

    def unreadable(self, request: HttpRequest, error: Exception) -> HttpResponse:
        """Never an empty table: which database, what it said, and when it was last well."""
        last = _last_good.get("at")
        now = clock.now()
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("The scheduler's database cannot be read"),
            "database": conf.get().DATABASE,
            "error": type(error).__name__,
            "last_good": moments.element(
                last, now=now, otherwise=_("not since this server process was started")
            ),
            "here": request.get_full_path(),
        }
        response = TemplateResponse(request, "sync_scheduler/unreadable.html", context, status=503)
        return response.render()

    def _refresh(self, request: HttpRequest, wanted: int | None) -> int:
        if wanted == 0 or not self.refreshes or request.method != "GET":
            return 0
        asked = request.GET.get("refresh", "")
        if asked in _REFRESH_CHOICES:
            return int(asked)
        return wanted or REFRESH_SECONDS

    def _places(self, request: HttpRequest, pulse: Pulse) -> list[dict[str, Any]]:
        """The navigation: only what the user may see."""
        known = {
            str(admin.place): admin
            for admin in self.admin_site._registry.values()  # noqa: SLF001  # it has no public name
            if isinstance(admin, Section)
        }
        found = []
        for key, title in (
            ("now", _("Now")),
            ("schedules", _("Schedules")),
            ("runs", _("Runs")),
            ("letters", _("Dead letters")),
            ("nodes", _("Nodes")),
            ("jobs", _("Jobs")),
            ("load", _("Load")),
        ):
            admin = known.get(key)
            if admin is not None and admin.has_view_permission(request):
                found.append(
                    {
                        "key": key,
                        "title": title,
                        "url": admin.url("changelist"),
                        "is_current": key == self.place,
                        "is_bad": key == "nodes" and pulse.is_dead,
                    }
                )
        return found


def has_permission(
    user: AbstractBaseUser | AnonymousUser, permission: str, obj: Model | None
) -> bool:
    """By Django's backends: for the row if one of them knows rows, otherwise in general."""
    check: Callable[..., bool] = user.has_perm  # type: ignore[union-attr]
    return check(permission) or (obj is not None and check(permission, obj))
