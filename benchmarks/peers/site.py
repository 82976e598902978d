"""The settings that every Django project of the comparison shares."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from benchmarks.peers.project import DATABASE_URL

_PARTS = urlsplit(os.environ.get(DATABASE_URL, "postgres://postgres@127.0.0.1:1/none"))

SECRET_KEY = "only-for-the-comparison"
USE_TZ = True
APPS = ["django.contrib.contenttypes", "django.contrib.auth"]


def databases(*, persistent: bool = True) -> dict[str, dict[str, object]]:
    """Connections stay open unless a project asks for what Django does without a setting."""
    return {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _PARTS.path.lstrip("/"),
            "USER": _PARTS.username,
            "HOST": _PARTS.hostname,
            "PORT": _PARTS.port,
            "CONN_MAX_AGE": None if persistent else 0,
        }
    }
