"""Settings of Celery's project with results in the database."""

from __future__ import annotations

import os

from benchmarks.peers import site

IS_TUNED = os.environ["BENCH_TUNED"] == "yes"

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases(persistent=IS_TUNED)
INSTALLED_APPS = [*site.APPS, "django_celery_results"]
