"""Settings of django-tasks-db's project; the framework comes from django-tasks on Django 5.2."""

from __future__ import annotations

from benchmarks.peers import site

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "django_tasks", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
