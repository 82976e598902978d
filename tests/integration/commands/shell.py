"""The command as a person or a script would use it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError

PYTHON = sys.executable


def scheduler(*words: str) -> str:
    """What the command prints; a failure is raised as CommandError."""
    out = io.StringIO()
    call_command("scheduler", *words, stdout=out)
    return out.getvalue()


def scheduler_json(*words: str) -> Any:
    return json.loads(scheduler(*words, "--json"))


def failing(*words: str) -> tuple[str, str]:
    """What a failing command prints, and the one line that says why."""
    out = io.StringIO()
    try:
        call_command("scheduler", *words, stdout=out)
    except CommandError as error:
        assert error.returncode == 1
        message = str(error)
        assert len(message.splitlines()) == 1, message
        return out.getvalue(), message
    raise AssertionError(f"scheduler {' '.join(words)} did not fail")


def in_own_process(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the database of this run."""
    return subprocess.run(
        [PYTHON, "-m", "django", "scheduler", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
