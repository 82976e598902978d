"""Schedules that are declared beside their jobs, applied by `migrate` and at every start.

Safe from any number of nodes at once. The rule follows the code. What else an operator has changed
in the row stays until the code itself changes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging

from sync_scheduler import conf
from sync_scheduler.errors import SchedulerError
from sync_scheduler.intake.schedules import edited, register
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.definition import Job
from sync_scheduler.jobs.payload import is_sealed
from sync_scheduler.models import Node, Schedule
from sync_scheduler.store import registrations
from sync_scheduler.store.locking import database_now
from sync_scheduler.timing.rules import Rule

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    created: tuple[str, ...]
    updated: tuple[str, ...]
    disabled: tuple[str, ...]
    faults: tuple[str, ...]


def apply(*, is_migrating: bool = False) -> Applied:
    """Bring the rows up to the code. One faulty declaration costs only itself."""
    created, updated, faults = [], [], []
    wanted = _declarations()
    for name, (job, rule) in wanted.items():
        if name == job.name and job.aliases:
            former = [alias for alias in job.aliases if alias not in wanted]
            registrations.rename(former, name, jobs=(job.name, *job.aliases))
        try:
            done = register(name, job=job, rule=rule, source=Schedule.Source.CODE)
        except SchedulerError as error:
            faults.append(f"Schedule {name!r} of job {job.name!r}: {error}")
            logger.error("schedule %r is not applied: %s", name, error)
            continue
        if done.created:
            created.append(name)
        elif done.updated:
            updated.append(name)
    return Applied(
        created=tuple(created),
        updated=tuple(updated),
        disabled=tuple(_disable_gone(frozenset(wanted), is_migrating)),
        faults=tuple(faults),
    )


def drift(schedule: Schedule) -> dict[str, tuple[object, object]]:
    """Where the row differs from the code that declares it: name -> (in the code, in the row)."""
    declared = schedule.declared
    if schedule.source != Schedule.Source.CODE or not declared or is_sealed(declared):
        return {}
    found: dict[str, tuple[object, object]] = {}
    for name, value in declared.items():
        if name == registrations.GONE:
            continue
        row = getattr(schedule, name)
        plain = row.isoformat() if isinstance(row, dt.datetime) else row
        if plain != value:
            found[name] = (value, plain)
    return found


def _declarations() -> dict[str, tuple[Job, Rule]]:
    found: dict[str, tuple[Job, Rule]] = {}
    for job in registry.all_jobs():
        for name, rule in job.schedules:
            if name in found:
                logger.error(
                    "schedule %r is declared by %s and by %s; the first one is used",
                    name,
                    found[name][0].where,
                    job.where,
                )
                continue
            found[name] = (job, rule)
    return found


def _disable_gone(wanted: frozenset[str], is_migrating: bool) -> list[str]:
    """Schedules that have vanished from the code are kept, but not run.

    While old and new code run side by side, a node that starts with the old code does not know
    what the new one declares. So while other nodes live, a start disables only what belongs to a
    job that none of them knows; `migrate` is run by the code that is to come.
    """
    rows = Schedule.objects.filter(source=Schedule.Source.CODE, enabled=True)
    gone = list(rows.exclude(name__in=wanted).order_by("name"))
    if gone and not is_migrating and (elsewhere := _known_elsewhere()) is not None:
        known = registry.known_names() | elsewhere
        gone = [row for row in gone if row.job not in known]
    for row in gone:
        registrations.mark_gone(row)
        edited(row)
        logger.warning("schedule %r is no longer declared in the code; disabled", row.name)
    return [row.name for row in gone]


def _known_elsewhere() -> frozenset[str] | None:
    """The jobs of all living nodes; None: there is no such node."""
    alive = database_now() - dt.timedelta(seconds=conf.get().NODE_LEASE)
    lists = Node.objects.filter(heartbeat_at__gte=alive, stopped_at__isnull=True)
    found = list(lists.values_list("jobs", flat=True))
    return frozenset(name for names in found for name in names) if found else None
