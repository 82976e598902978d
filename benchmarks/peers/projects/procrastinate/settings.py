"""Settings of procrastinate's project."""

from __future__ import annotations

from benchmarks.peers import site

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "procrastinate.contrib.django"]
PROCRASTINATE_IMPORT_PATHS = ["benchmarks.peers.projects.procrastinate.project"]
