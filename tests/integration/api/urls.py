"""A project that serves the HTTP interface where the documentation says."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("scheduler/", include("sync_scheduler.urls")),
]
