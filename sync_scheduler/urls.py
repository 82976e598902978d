"""`path("scheduler/", include("sync_scheduler.urls"))`."""

from __future__ import annotations

from django.urls import path

from sync_scheduler.api import cluster, events, runs, schedules

app_name = "sync_scheduler"

# A schedule's name may contain slashes; what follows it is fixed, so it is still clear.
urlpatterns = [
    path("v1/status", cluster.show_status, name="status"),
    path("v1/schedules", schedules.listing, name="schedules"),
    path("v1/schedules/<path:name>/history", schedules.history, name="history"),
    path("v1/schedules/<path:name>/trigger", schedules.trigger, name="trigger"),
    path("v1/runs/<str:run_id>", runs.show, name="run"),
    path("v1/runs/<str:run_id>/cancel", runs.cancel, name="cancel"),
    path("v1/runs/<str:run_id>/retry", runs.retry, name="retry"),
    path("v1/events", events.stream, name="events"),
    path("v1/openapi.json", cluster.description, name="openapi"),
    path("healthz", cluster.healthz, name="healthz"),
    path("metrics", cluster.metrics, name="metrics"),
]
