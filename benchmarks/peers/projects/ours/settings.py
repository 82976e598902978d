"""Settings of sync_scheduler's project; BENCH_MODE says whether with Redis."""

from __future__ import annotations

import os

from benchmarks.peers import site
from benchmarks.peers.project import redis_url

SECRET_KEY = site.SECRET_KEY
USE_TZ = site.USE_TZ
DATABASES = site.databases()
INSTALLED_APPS = [*site.APPS, "sync_scheduler", "benchmarks.peers.projects.ours"]
SYNC_SCHEDULER = {"REDIS_URL": redis_url() if os.environ["BENCH_MODE"] == "redis" else None}
