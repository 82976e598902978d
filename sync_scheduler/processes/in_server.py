"""`RUN_IN_SERVER`: a small site's scheduler, started and ended with its web server.

The web process itself gets no thread and no fork of ours; it only starts a guard (see `guard`),
which starts `runscheduler` if nobody on this machine has done so for this project.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings as django_settings
from django.core.signals import request_started

from sync_scheduler import conf

SERVERS = frozenset(
    {"gunicorn", "uvicorn", "daphne", "hypercorn", "granian", "waitress-serve", "uwsgi"}
)
_started: dict[int, subprocess.Popen[bytes]] = {}


def start_if_wanted() -> None:
    """Called when Django is ready: start now in a web server, or with its first request."""
    if conf.faults() or not conf.get().RUN_IN_SERVER:
        return
    if _is_web_server(sys.argv, dict(os.environ)):
        start()
    elif not _is_command(sys.argv):
        request_started.connect(_on_request, dispatch_uid="sync_scheduler.in_server")


def start() -> None:
    """Start this process's guard, once."""
    pid = os.getpid()
    if pid in _started:
        return
    module = os.environ.get("DJANGO_SETTINGS_MODULE", "")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
    }
    guard = Path(__file__).with_name("guard.py")
    command = [sys.executable, "-m", "django", "runscheduler", f"--settings={module}"]
    # The pipe is never written to: that it closes is the message.
    _started[pid] = subprocess.Popen(  # noqa: S603  # our own command line
        [sys.executable, str(guard), str(lock_file()), *command],
        stdin=subprocess.PIPE,
        env=environment,
    )


def lock_file() -> Path:
    """One per machine, project, database and namespace."""
    settings = conf.get()
    database = django_settings.DATABASES[settings.DATABASE]
    what = f"{database.get('HOST')}|{database.get('PORT')}|{database.get('NAME')}"
    mark = hashlib.sha256(f"{what}|{settings.NAMESPACE}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"sync_scheduler-{os.getuid()}-{mark}.lock"


def _is_web_server(argv: list[str], environment: dict[str, str]) -> bool:
    program = Path(argv[0]).name.removesuffix(".py") if argv else ""
    if program in SERVERS or (program == "__main__" and Path(argv[0]).parent.name in SERVERS):
        return True
    if "runserver" not in argv[1:2]:
        return False
    # With its reloader, runserver is two processes; only the inner one serves.
    return "--noreload" in argv or environment.get("RUN_MAIN") == "true"


def _is_command(argv: list[str]) -> bool:
    program = Path(argv[0]).name if argv else ""
    return program in {"manage.py", "django-admin", "__main__.py", "pytest"}


def _on_request(**_: object) -> None:
    start()
