"""Time is read in one place, so that tests and users can move it."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.package import dotted, modules

READS = {
    *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "process_time")),
    *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "process_time")),
    *("time.clock_gettime", "time.clock_gettime_ns", "time.localtime", "time.gmtime"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    "datetime.date.today",
    *("django.utils.timezone.now", "django.utils.timezone.localdate"),
}


def reads_of_time(tree: ast.Module) -> list[str]:
    """Every use of a function that reads a clock, under whatever name it was imported."""
    meaning: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                meaning[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, _, rest = dotted(node).partition(".")
            full = ".".join(filter(None, [meaning.get(first, first), rest]))
            if full in READS:
                found.append(f"line {node.lineno}: {full}")
    return found


def test_time_is_read_only_by_the_clock() -> None:
    found = {module.name: reads_of_time(module.tree) for module in modules()}
    assert found.pop("clock.py"), "the clock itself must be seen to read the time"
    assert not {name: reads for name, reads in found.items() if reads}


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import monotonic\nmonotonic()",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "from datetime import datetime\ndatetime.utcnow()",
        "from django.utils import timezone\ntimezone.now()",
        "from django.utils.timezone import now\nfield(default=now)",
    ],
)
def test_a_reading_of_the_time_is_noticed(source: str) -> None:
    assert reads_of_time(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "from sync_scheduler import clock\nclock.now()",
        "import time\ntime.sleep(1)",
        "def f(now: float) -> float:\n    return now",
    ],
)
def test_what_does_not_read_the_time_is_left_alone(source: str) -> None:
    assert not reads_of_time(ast.parse(source))
