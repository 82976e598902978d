"""What the package's own source must not do."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import sync_scheduler

PACKAGE = Path(sync_scheduler.__file__).parent
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "jsonpickle"}
FETCHERS = {"urllib.request", "http.client", "requests", "httpx", "aiohttp", "ftplib", "smtplib"}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def imported() -> set[str]:
    found: set[str] = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


def test_nothing_that_brings_objects_to_life_is_imported() -> None:  # S6
    assert not {name for name in imported() if name.split(".")[0] in FORBIDDEN}


def test_nothing_that_fetches_is_imported() -> None:  # S10
    assert not imported() & FETCHERS


def test_json_is_read_without_hooks() -> None:  # S30
    hooks = {"object_hook", "object_pairs_hook", "cls", "parse_constant"}
    for name, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in {"loads", "load", "JSONDecoder"}:
                assert not hooks & {one.arg for one in node.keywords}, f"{name}:{node.lineno}"


def test_no_code_is_made_from_text() -> None:  # S6
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                where = f"{name}:{node.lineno}"
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, where


def test_no_run_acts_as_a_user() -> None:  # S31
    """Who submitted is kept as text; nobody is logged in, and no handler gets a request."""
    found = imported()
    assert not {name for name in found if name.startswith("django.contrib.auth.login")}
    assert not found & {"django.contrib.auth.authenticate", "django.test.RequestFactory"}
    work = [tree for name, tree in trees() if name.startswith(("work/", "jobs/", "processes/"))]
    for tree in work:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("django.contrib.auth")


def test_importing_opens_no_connection() -> None:  # S32
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise SystemExit('it opened a connection')\n"
        "socket.socket.connect = socket.socket.connect_ex = refuse\n"
        "socket.getaddrinfo = refuse\n"
        "import django; django.setup()\n"
        "import sync_scheduler.models, sync_scheduler.processes.service, sync_scheduler.urls\n"
        "import sync_scheduler.coordination.client, sync_scheduler.admin\n"
        "print('quiet')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PYTHONPATH": str(PACKAGE.parent),
            "SYNC_SCHEDULER_REDIS_URL": "redis://127.0.0.1:1/0",
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.stdout.strip() == "quiet", result.stderr
