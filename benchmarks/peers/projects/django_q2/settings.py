"""Settings of django-q2's project."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from benchmarks.peers import site
from benchmarks.peers.project import redis_url

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "django_q"]

_BROKERS: dict[str, dict[str, object]] = {
    "orm": {"orm": "default"},
    "redis": {"redis": {"host": "127.0.0.1", "port": urlsplit(redis_url()).port, "db": 0}},
}
Q_CLUSTER: dict[str, object] = {
    "name": "peers",
    "workers": 2,
    "timeout": 60,
    "retry": 120,
    "save_limit": 0,  # by default it keeps 250 results, and looks for older ones at each
    "bulk": 20,
    "queue_limit": 100,
    "recycle": 1_000_000,
    "log_level": "WARNING",
    **_BROKERS[os.environ["BENCH_BROKER"]],
}
