"""From what somebody typed to the row that they meant, or to a sentence that helps."""

from __future__ import annotations

import uuid

from sync_scheduler.management.actions.answer import ActionFailed
from sync_scheduler.models import Run, Schedule
from sync_scheduler.store.reports import runs, schedules


def schedule(name: str) -> Schedule:
    found = schedules.find(name)
    if found is not None:
        return found
    similar = schedules.similar_names(name)
    if similar:
        meant = " or ".join(repr(one) for one in similar)
        raise ActionFailed(f"There is no schedule named {name!r}. Did you mean {meant}?")
    raise ActionFailed(
        f"There is no schedule named {name!r}; `manage.py scheduler list` shows all."
    )


def run(text: str) -> Run:
    """By its id, or by enough of its beginning."""
    found = runs.get(run_id(text))
    if found is None:
        raise _gone(text)
    return found


def run_id(text: str) -> uuid.UUID:
    ids = runs.beginning_with(text)
    if len(ids) == 1:
        return ids[0]
    if ids:
        shown = ", ".join(str(one) for one in ids[:3])
        more = ", ..." if len(ids) > 3 else ""
        raise ActionFailed(
            f"{text!r} is the beginning of several Runs; give more of it: {shown}{more}"
        )
    if len(text.replace("-", "")) < runs.SHORTEST_PREFIX:
        raise ActionFailed(
            f"{text!r} is too short; give at least the first {runs.SHORTEST_PREFIX} characters"
            " of a Run's id."
        )
    raise _gone(text)


def _gone(text: str) -> ActionFailed:
    return ActionFailed(
        f"There is no Run {text!r}; it may have been pruned. `manage.py scheduler history`"
        " shows the newest."
    )
