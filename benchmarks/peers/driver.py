"""Measure one project, from inside its own environment; needs nothing but that environment.

    python -m benchmarks.peers.driver PROJECT --out FILE [--jobs N] ...

The same three measurements for every project, ours included:

- submit: jobs submitted one after another by one process, while no worker runs;
- throughput: with the jobs waiting, two worker processes are started. The clock runs from the
  first start of a handler until the last outcome is stored, as seen by an outsider who counts;
- wait: with the same workers, idle now, from just before a submit to the start of its handler.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.peers import stamps
from benchmarks.peers.project import Project, bare_commits

WARM_UP = 10
START_SECONDS = 30.0
STOP_SECONDS = 15.0
# The outsider asks rarely in the beginning and often towards the end.
ASK_AT_LEAST, ASK_AT_MOST = 0.01, 0.5
SECOND = 1_000_000_000


def submit_rate(project: Project, count: int) -> float:
    for _ in range(WARM_UP):
        project.submit()
    begin = time.perf_counter()
    for _ in range(count):
        project.submit()
    return count / (time.perf_counter() - begin)


def fill(project: Project, count: int) -> None:
    if project.fill is not None:
        project.fill(count)
        return
    for _ in range(count):
        project.submit()


@contextmanager
def running(workers: tuple[tuple[str, ...], ...], log: Path) -> Iterator[None]:
    with log.open("ab") as output:
        processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for command in workers
        ]
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                # Whatever is left of the family, so that the next project meets an idle machine.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def await_first(seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while not stamps.count():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no handler started within {seconds:g} s")
        time.sleep(0.005)
    return min(stamps.read())


def throughput(finished: Callable[[], int], goal: int, seconds: float) -> tuple[float, int]:
    """Outcomes per second, and how many were stored before the time was up."""
    first = await_first(START_SECONDS)
    while True:
        done, now = finished(), time.time_ns()
        elapsed = (now - first) / SECOND
        if done >= goal or elapsed > seconds:
            return done / elapsed, done
        rest = (goal - done) * elapsed / done if done else ASK_AT_MOST
        time.sleep(min(max(rest / 4, ASK_AT_LEAST), ASK_AT_MOST))


def waits(project: Project, count: int, pause: float, seconds: float) -> list[float]:
    """Milliseconds from submit to handler start; the pauses between are of random length."""
    found: list[float] = []
    chance = random.Random(1)
    deadline = time.monotonic() + seconds
    stamps.clear()
    while len(found) <= count and time.monotonic() < deadline:
        time.sleep(0.02 + chance.random() * pause)
        begin = time.time_ns()
        project.submit_stamped()
        while stamps.count() <= len(found):
            if time.time_ns() - begin > START_SECONDS * SECOND:
                raise TimeoutError(f"a handler had not started after {START_SECONDS:g} s")
            time.sleep(0.001)
        found.append((stamps.read()[-1] - begin) / 1_000_000)
    return found[1:]  # the first one warmed up


def measure(project: Project, given: argparse.Namespace) -> dict[str, object]:
    project.prepare()
    stamps.clear()
    # Taken around the measurement, since what else the machine does must be seen beside it.
    before = bare_commits()
    submits = min(given.submits, given.jobs - WARM_UP)
    rate = submit_rate(project, submits)
    fill(project, given.jobs - submits - WARM_UP)
    project.settle()
    with running(project.workers, Path(given.log)):
        per_second, done = throughput(project.finished, given.jobs, given.seconds)
        # With work left over the workers are not idle, and there is nothing to measure.
        is_idle = done >= given.jobs
        waited = waits(project, given.waits, given.pause, given.seconds) if is_idle else []
    return {
        "floor": (before + bare_commits()) / 2,
        "throughput": per_second,
        "submit": rate,
        "waits_ms": waited,
        "jobs": done,
        "submits": submits,
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in given.packages},
    }


def _end(*_: object) -> None:
    # An exception, so that the workers are stopped on the way out.
    sys.exit("ended by a signal")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, _end)
    parser = argparse.ArgumentParser(prog="benchmarks.peers.driver")
    parser.add_argument("project")
    parser.add_argument("--out", required=True)
    parser.add_argument("--log", default=os.devnull)
    parser.add_argument("--packages", type=lambda names: names.split(",") if names else [])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--submits", type=int, default=1000)
    parser.add_argument("--waits", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.2)
    parser.add_argument("--seconds", type=float, default=40)
    given = parser.parse_args(arguments)
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        import django

        django.setup()
    module = importlib.import_module(f"benchmarks.peers.projects.{given.project}.project")
    Path(given.out).write_text(json.dumps(measure(module.PROJECT, given)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
