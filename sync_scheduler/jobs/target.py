"""Targets that are not declared with `@job`: named so that a schedule can point at them."""

from __future__ import annotations

import dataclasses

from sync_scheduler.errors import InvalidJob

CELERY_PREFIX = "celery:"


@dataclasses.dataclass(frozen=True, slots=True)
class CeleryTask:
    """A Celery task by its name; it is sent to Celery's own queue when the slot is due."""

    path: str

    @property
    def name(self) -> str:
        return CELERY_PREFIX + self.path


def celery(path: str) -> CeleryTask:
    """Point a schedule at a Celery task that the team already has."""
    if not path or not path.replace(".", "").replace("_", "").isalnum():
        raise InvalidJob(f"celery({path!r}): give the task's dotted name, as in 'shop.tasks.sync'.")
    return CeleryTask(path)
