"""Asks after every fault test whether the promises still hold; no test has to remember to.

Whoever starts nodes enters here and is examined when the test's body has ended, before anything
is stopped: `enter` when it opens, `leave` when it closes. A test that breaks a rule on purpose
says so beforehand: `subject.excuses["I3"] = "its queue is served by nobody"`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sync_scheduler import clock, lifecycle
from sync_scheduler.models import Node, Queue, Run, Schedule
from tests.faults import evidence, invariants, resources
from tests.faults.resources import Survivor

# How long everything may take to come to rest, once a test has done its worst.
PATIENCE_SECONDS = 30.0
# What has become due this recently is on its way.
MOMENT = dt.timedelta(seconds=2)


class Subject(Protocol):
    """A set of nodes with their database."""

    folder: Path
    excuses: dict[str, str]

    @property
    def ledger_path(self) -> Path: ...
    @property
    def redis_address(self) -> str | None: ...
    @property
    def database_ports(self) -> set[int]: ...
    def survivors(self) -> list[Survivor]: ...
    def log_files(self) -> list[Path]: ...
    def looking(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the models of this process read this subject's database."""
        ...


_open: list[Subject] = []


def enter(subject: Subject) -> None:
    _open.append(subject)


def leave(subject: Subject) -> None:
    _open[:] = [one for one in _open if one is not subject]


def examine_all() -> None:
    for subject in list(_open):
        examine(subject)


def keep_evidence(error: BaseException) -> None:
    """A test has failed: keep what its subjects left, and say where."""
    for subject in list(_open):
        keep(subject, error)


def keep(subject: Subject, error: BaseException) -> None:
    with contextlib.suppress(Exception), subject.looking():
        error.add_note(evidence.keep(subject.ledger_path, subject.log_files(), str(error)))


def examine(subject: Subject) -> None:
    """Raises one AssertionError that names everything which does not hold."""
    with subject.looking():
        wrong = _examine(subject)
    if wrong:
        lines = "\n".join(f"{name}: {sentence}" for name, sentence in wrong[:20])
        error = AssertionError(f"{len(wrong)} promises were broken\n{lines}")
        keep(subject, error)
        raise error


def _examine(subject: Subject) -> list[tuple[str, str]]:
    survivors = [one for one in subject.survivors() if not one.is_stopped]
    questions: dict[str, Callable[[], list[str]]] = {
        "I3": lambda: _settled(survivors),
        **{
            name: lambda check=check: check(subject.ledger_path)  # type: ignore[misc]
            for name, check in invariants.CHECKS.items()
        },
        "I8": lambda: _at_rest(subject, survivors),
    }
    wrong: list[tuple[str, str]] = []
    for name, ask in questions.items():
        if name not in subject.excuses:
            wrong += [(name, sentence) for sentence in ask()]
    return wrong


def _settled(survivors: list[Survivor]) -> list[str]:
    return _eventually(lambda: _not_dispatched(survivors) + _not_ended(survivors))


def _not_dispatched(survivors: list[Survivor]) -> list[str]:
    if not any(one.dispatches for one in survivors):
        return []
    number = Schedule.objects.filter(
        enabled=True, paused_at__isnull=True, failures=0, next_run_at__lte=clock.now() - MOMENT
    ).count()
    return [f"{number} schedules are due and not dispatched"] if number else []


def _not_ended(survivors: list[Survivor]) -> list[str]:
    active = Run.objects.filter(status__in=lifecycle.ACTIVE)
    gone = Node.objects.filter(stopped_at__isnull=False).values_list("name", flat=True)
    left = active.filter(status=lifecycle.State.RUNNING, node__in=list(gone))
    wrong = [f"{left.count()} runs are held by nodes that have left"] if left.exists() else []
    if any(one.works for one in survivors):
        paused = Queue.objects.filter(paused_at__isnull=False).values_list("name", flat=True)
        due = active.filter(run_at__lte=clock.now() - MOMENT).exclude(queue__in=list(paused))
        if number := due.count():
            wrong.append(f"{number} runs have not ended")
    return wrong


def _at_rest(subject: Subject, survivors: list[Survivor]) -> list[str]:
    wrong = _eventually(lambda: resources.nothing_leaks(survivors, subject.database_ports))
    address = subject.redis_address
    if address is not None and any(one.works for one in survivors):
        wrong += _eventually(lambda: resources.queues_are_bounded(address))
    return wrong


def _eventually(ask: Callable[[], list[str]], seconds: float = PATIENCE_SECONDS) -> list[str]:
    """What is still wrong when patience has run out."""
    deadline = time.monotonic() + seconds
    while wrong := ask():
        if time.monotonic() > deadline:
            return wrong
        time.sleep(0.1)
    return []
