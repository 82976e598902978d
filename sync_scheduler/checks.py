"""System checks: what is wrong, in one sentence each, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from sync_scheduler import conf
from sync_scheduler.coordination import client, tenancy
from sync_scheduler.errors import ServiceUnavailable
from sync_scheduler.intake import definitions
from sync_scheduler.jobs import codec, registry
from sync_scheduler.jobs.definition import Job
from sync_scheduler.store import installation

E001 = "sync_scheduler.E001"  # a bad setting
E002 = "sync_scheduler.E002"  # a missing migration
E003 = "sync_scheduler.E003"  # Redis missing or too old
E004 = "sync_scheduler.E004"  # another installation uses this namespace of Redis
E005 = "sync_scheduler.E005"  # a schedule of one name is declared twice
W001 = "sync_scheduler.W001"  # SQLite without IMMEDIATE transactions
W002 = "sync_scheduler.W002"  # a job's lease shorter than two heartbeats
W003 = "sync_scheduler.W003"  # a schedule whose job does not take its input


@register(Tags.compatibility)
def check_settings(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    hint = "See docs/reference/settings for every name and its meaning."
    found = conf.faults() or [*codec.faults(), *client.faults()]
    return [Error(fault, hint=hint, id=E001) for fault in found]


@register(Tags.database)
def check_database(
    app_configs: Sequence[Any] | None = None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[CheckMessage]:
    if conf.faults() or conf.get().DATABASE not in (databases or ()):
        return []
    alias = conf.get().DATABASE
    options = django_settings.DATABASES[alias].get("OPTIONS", {})
    if connections[alias].vendor == "sqlite" and options.get("transaction_mode") != "IMMEDIATE":
        return [
            checks.Warning(
                f"The SQLite database {alias!r} does not use IMMEDIATE transactions;"
                " several processes will meet 'database is locked'.",
                hint='Add "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}.',
                id=W001,
            )
        ]
    return []


@register(Tags.compatibility)
def check_leases(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    if conf.faults():
        return []
    least = 2 * conf.get().NODE_HEARTBEAT
    return [
        checks.Warning(
            f"The job {job.name!r} has a lease of {job.policy.lease:g} s, which two heartbeats"
            f" ({least:g} s) outlast: a living handler's Run could be given to another node.",
            hint="Give it a longer lease, or set a shorter NODE_HEARTBEAT.",
            id=W002,
        )
        for job in registry.all_jobs()
        if job.policy.lease is not None and job.policy.lease < least
    ]


@register(Tags.compatibility)
def check_schedules(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Only one of them could be stored, and nothing would run the other."""
    found: list[CheckMessage] = []
    declared: dict[str, Job] = {}
    for job in registry.all_jobs():
        for name, _ in job.schedules:
            if name in declared:
                where = f"by {declared[name].where} and by {job.where}"
                found.append(
                    Error(
                        f"The schedule {name!r} is declared {where}; only one of them would run.",
                        hint="Give each rule a name of its own: name=...",
                        id=E005,
                    )
                )
            declared[name] = job
    return found


@register(Tags.compatibility)
def check_inputs(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """A warning: the others can be stored, and `migrate` shall not be refused over this one."""
    if conf.faults():
        return []
    return [
        checks.Warning(
            f"The schedule {name!r} cannot be stored: {fault}",
            hint=f"Mend the input of its rule, or the arguments of {job.where}.",
            id=W003,
        )
        for job in registry.all_jobs()
        for name, rule in job.schedules
        if (fault := definitions.input_fault(job, rule))
    ]


def start_up_faults() -> list[CheckMessage]:
    """What must hold before a scheduler process starts, beyond what `check` looks at."""
    found = check_settings() or check_schedules()
    return found or check_servers() or _tenancy_faults()


@register(Tags.compatibility, deploy=True)
def check_servers(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Only with `check --deploy`: `migrate` must not be refused because it has not been run."""
    return [] if check_settings() else [*_migration_faults(), *_redis_faults()]


def _migration_faults() -> list[CheckMessage]:
    alias = conf.get().DATABASE
    try:
        return missing_migrations()
    except DatabaseError as error:
        sentence = str(error).strip().splitlines()[0] if str(error).strip() else "no answer"
        return [
            Error(
                f"The database {alias!r} cannot be reached: {sentence}",
                hint="Start it, or mend DATABASES.",
                id=E002,
            )
        ]


def missing_migrations() -> list[CheckMessage]:
    """Raises what the database raises if it cannot be asked."""
    alias = conf.get().DATABASE
    executor = MigrationExecutor(connections[alias])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "sync_scheduler"]
    plan = executor.migration_plan(targets)
    if not plan:
        return []
    return [
        Error(
            f"The database {alias!r} lacks the migration {plan[0][0].name} of sync_scheduler.",
            hint="Run `manage.py migrate` first.",
            id=E002,
        )
    ]


def _redis_faults() -> list[CheckMessage]:
    if not conf.get().uses_redis:
        return []
    try:
        client.require_usable()
    except ServiceUnavailable as error:
        return [Error(str(error), id=E003)]
    return []


def _tenancy_faults() -> list[CheckMessage]:
    """Two databases behind one namespace would take each other's hints, and the lead."""
    if not conf.get().uses_redis:
        return []
    try:
        mine = installation.identify()
        if tenancy.occupy(mine) == mine:
            return []
    except (DatabaseError, *client.UNREACHABLE):
        return []  # gone a moment after it answered: not for us to say why
    return [
        Error(
            f"The namespace {conf.get().NAMESPACE!r} of Redis at {client.shown_url()} is used by"
            " another installation, one with another database.",
            hint="Give this one a NAMESPACE of its own; or, if its database was made anew, wait"
            f" {tenancy.MARK_SECONDS:g} s.",
            id=E004,
        )
    ]
