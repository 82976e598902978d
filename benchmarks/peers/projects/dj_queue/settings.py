"""Settings of dj-queue's project."""

from __future__ import annotations

from benchmarks.peers import site

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "dj_queue"]
TASKS = {
    "default": {
        "BACKEND": "dj_queue.backend.DjQueueBackend",
        "OPTIONS": {"workers": [{"processes": 2}]},
    }
}
