"""Settings of django-ox's project."""

from __future__ import annotations

from benchmarks.peers import site

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "django_ox"]
TASKS = {"default": {"BACKEND": "django_ox.backend.OxBackend"}}
