"""Settings of the demo shop.

Without any configuration: an SQLite file, no Redis. `.env` (see `.env.example`) or the
environment changes that; the environment wins over the file.
"""

from pathlib import Path

import environ

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
env.read_env(BASE_DIR / ".env")

# Where the demo keeps what it writes, so that deleting one folder starts it afresh.
DATA_DIR = Path(env.str("DEMO_DIR", default="") or BASE_DIR / ".demo").resolve()

# The shop runs on the developer's own machine and holds made-up data only.
DEBUG = env.bool("DEBUG", default=True)
SECRET_KEY = env.str("SECRET_KEY", default="") or "made-up-key-of-the-demo-shop-on-localhost"
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "sync_scheduler",
    "shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

ROOT_URLCONF = "config.urls"

DATABASES = {
    "default": env.db_url_config(
        env.str("DATABASE_URL", default="") or f"sqlite:///{DATA_DIR / 'shop.sqlite3'}"
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Several processes write: take the write lock at BEGIN, wait for it, and let readers read.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SYNC_SCHEDULER = {
    "REDIS_URL": env.str("REDIS_URL", default="") or None,
    # Nobody wants to wait 25 seconds after Ctrl-C in a demo.
    "SHUTDOWN_GRACE": 5.0,
}

EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
DEFAULT_FROM_EMAIL = "Lantern & Loom <shop@lantern-loom.example>"

LANGUAGE_CODE = "en"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
STATIC_URL = "static/"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"short": {"format": "%(asctime)s %(levelname)-7s %(message)s", "datefmt": "%X"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "short"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    # Django's own handler would write each of its lines a second time.
    "loggers": {"django": {"handlers": []}},
}
