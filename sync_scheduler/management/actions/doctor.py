"""`doctor`: look for what is wrong, and say what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django.db import DatabaseError, InterfaceError

from sync_scheduler.management.actions import cluster, surroundings
from sync_scheduler.management.actions.answer import Action, Answer, Options
from sync_scheduler.management.actions.finding import Finding
from sync_scheduler.management.actions.table import printable


def findings() -> list[Finding]:
    """Everything that was looked at, the good as well as the bad.

    What rests on something that is broken is not looked at: its faults would only hide the cause.
    """
    found = surroundings.settings()
    if _errors(found):
        return found
    found += surroundings.redis()
    try:
        migrations = surroundings.migrations()
        found += migrations
        if not _errors(migrations):
            found += [*surroundings.sqlite(), *surroundings.machine_clock(), *cluster.look()]
    except (DatabaseError, InterfaceError) as error:
        found.append(
            Finding(
                level="error",
                check="database",
                message=f"It cannot be used: {type(error).__name__}.",
                hint="Look at its log, or mend DATABASES.",
            )
        )
    return found


def _errors(found: Sequence[Finding]) -> int:
    return sum(finding.level == "error" for finding in found)


def _doctor(options: Options) -> Answer:
    found = findings()
    errors = _errors(found)
    failure = "" if not errors else f"{errors} error{'s' if errors > 1 else ''} found."
    return Answer(
        document={"ok": not errors, "findings": [dataclasses.asdict(one) for one in found]},
        text=_in_words(found),
        failure=failure,
    )


def _in_words(found: Sequence[Finding]) -> str:
    width = max(len(finding.check) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{finding.level:<7}  {finding.check:<{width}}  {printable(finding.message)}")
        if finding.hint:
            lines.append(f"{'':<7}  {'':<{width}}  -> {printable(finding.hint)}")
    return "\n".join(lines)


ACTIONS = (
    Action(
        name="doctor",
        help="look for what is wrong, and say what to do",
        run=_doctor,
        needs_valid_settings=False,
    ),
)
