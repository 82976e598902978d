"""Django settings of the test run; the database is chosen by the environment.

TEST_DATABASE is `sqlite` (default), `postgres` or `mysql`; TEST_DATABASE_URL is where it is,
set by `tests/services/plugin.py` before Django reads this file.
"""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path
from typing import Any

import environ

env = environ.Env()

SECRET_KEY = "only-for-tests"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en-us"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
ROOT_URLCONF = "tests.urls"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "sync_scheduler",
    "tests.testapp",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    # Whatever the browser tests do, they do it under a policy that forbids everything inline.
    "tests.browser.strict_policy.strict_policy",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
# Hashing passwords well is slow, and nothing here is worth protecting.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Outside a test run (type checks, makemigrations) any file will do.
_FALLBACK = Path(tempfile.gettempdir()) / f"sync_scheduler-{getpass.getuser()}.sqlite3"
_DATABASE: dict[str, Any] = env.db_url("TEST_DATABASE_URL", default=f"sqlite:///{_FALLBACK}")

_OPTIONS: dict[str, dict[str, object]] = {
    # Several processes share the file: writers queue for the lock instead of failing, and
    # readers do not disturb them.
    "sqlite": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
    },
    "postgres": {},
    "mysql": {"charset": "utf8mb4"},
}

DATABASES = {
    "default": {
        **_DATABASE,
        "OPTIONS": _OPTIONS[env.str("TEST_DATABASE", default="sqlite")],
        # The test database has no name of its own, so that subprocesses meet the same one.
        "TEST": {"NAME": _DATABASE["NAME"]},
    },
}

# Whoever tests what is closed by default says so.
SYNC_SCHEDULER: dict[str, object] = {"ADMIN_JOBS": ["tests.*"]}
