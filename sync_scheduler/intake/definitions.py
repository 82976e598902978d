"""From what a person writes (job, rule, options) to what a schedule's row holds, checked."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings as django_settings

from sync_scheduler import clock, conf
from sync_scheduler.errors import InvalidInput, InvalidRule, SchedulerError
from sync_scheduler.jobs import payload, registry
from sync_scheduler.jobs.definition import Job
from sync_scheduler.jobs.target import CeleryTask
from sync_scheduler.store.registrations import Definition
from sync_scheduler.timing import policies
from sync_scheduler.timing.rules import Rule

logger = logging.getLogger(__name__)

OPTIONS = frozenset(
    [
        "input",
        "misfire",
        "max_catch_up",
        "misfire_grace",
        "overlap",
        "jitter",
        "start_at",
        "end_at",
        "enabled",
        "meta",
    ]
)
_LONGEST_NAME = 200


def define(name: str, *, job: Any, rule: Rule, options: Mapping[str, Any]) -> Definition:
    """Check everything; options given beside the rule win over those inside it."""
    _check_name(name)
    if not isinstance(rule, Rule):
        raise InvalidRule(
            f"Schedule {name!r}: rule must be made by cron(), every() or once(),"
            f" not {type(rule).__name__}."
        )
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise TypeError(f"Schedule {name!r} has no option {unknown[0]!r}.")
    given = {option: value for option, value in options.items() if value is not None}
    rule = dataclasses.replace(rule, **_in_seconds(given))
    if rule.kind == "interval" and rule.anchor is None and rule.start_at is not None:
        rule = dataclasses.replace(rule, anchor=rule.start_at)  # as every(start_at=...) does
    recurrence = rule.recurrence(
        default_timezone=django_settings.TIME_ZONE or "UTC", anchor=clock.now()
    )
    for option in ("input", "meta"):
        if not isinstance(getattr(rule, option), Mapping | None):
            raise InvalidInput(f"Schedule {name!r}: {option} must be a dict.")
    if rule.enabled not in (None, True, False):
        raise InvalidInput(f"Schedule {name!r}: enabled must be True or False.")
    limit = conf.get().MAX_INPUT_BYTES
    values = {
        "job": job_name(job),
        "input": payload.normalise(_encoded(job, rule.input or {}), "The input", limit),
        "kind": recurrence.kind,
        "expression": recurrence.expression,
        "timezone": recurrence.timezone,
        "anchor_at": recurrence.anchor,
        "start_at": recurrence.start_at,
        "end_at": recurrence.end_at,
        "jitter_seconds": rule.jitter or 0.0,
        "misfire": _policy(name, "misfire", rule.misfire, policies.normalise_misfire),
        "max_catch_up": 100 if rule.max_catch_up is None else rule.max_catch_up,
        "misfire_grace": rule.misfire_grace,
        "overlap": _policy(name, "overlap", rule.overlap, policies.normalise_overlap),
        "meta": payload.normalise(dict(rule.meta or {}), "meta", limit),
    }
    return Definition(
        name=name,
        values=values,
        enabled=True if rule.enabled is None else rule.enabled,
        is_anchored=rule.anchor is not None,
    )


def input_fault(job: Job, rule: Rule) -> str:
    """Why a declared schedule cannot be stored, as far as its input tells; empty: it can."""
    given: Any = rule.input or {}
    if not isinstance(given, Mapping):
        return "input must be a dict."
    try:
        payload.normalise(job.signature.encode((), given), "The input", conf.get().MAX_INPUT_BYTES)
    except SchedulerError as error:
        return str(error)
    return ""


def job_name(job: Any) -> str:
    """The name under which a schedule stores its job; it must be known here."""
    if isinstance(job, Job):
        return job.name
    if isinstance(job, CeleryTask):
        return job.name
    if isinstance(job, str):
        return registry.get(job).name
    # A task of Django's Tasks framework: it is known by the path of its function.
    path = getattr(job, "module_path", None)
    if isinstance(path, str):
        return registry.get(path).name
    raise InvalidInput(
        f"job must be a job, its name, a Django task or celery('path'), not {type(job).__name__}."
    )


def _encoded(job: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(job, CeleryTask):
        return dict(given)
    return registry.get(job_name(job)).signature.encode((), given)


def _policy(name: str, what: str, value: str | None, normalise: Any) -> str:
    if value is None:
        return policies.Misfire.SKIP.value  # both policies begin with "skip"
    known: str = normalise(value)
    if known != value:
        logger.warning(
            "schedule %r: %s %r is unknown and is treated as %r", name, what, value, known
        )
    return known


def _in_seconds(given: dict[str, Any]) -> dict[str, Any]:
    for option in ("jitter", "misfire_grace"):
        if isinstance(given.get(option), dt.timedelta):
            given[option] = given[option].total_seconds()
    return given


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise InvalidInput(f"A schedule's name must be 1 to {_LONGEST_NAME} printable characters.")
