"""All jobs of this process, by name. Nothing is ever imported because somebody typed its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sync_scheduler.errors import InvalidJob, UnknownJob

if TYPE_CHECKING:
    from sync_scheduler.jobs.definition import Job

_jobs: dict[str, Job] = {}
_aliases: dict[str, str] = {}


def add(job: Job) -> None:
    """Register; a name that another function holds is refused."""
    for name in (job.name, *job.aliases):
        holder = find(name)
        if holder is not None and not _is_same_function(holder, job):
            raise InvalidJob(
                f"The job name {name!r} is taken by {holder.where}; {job.where} needs another one."
            )
    _jobs[job.name] = job
    _aliases.update(dict.fromkeys(job.aliases, job.name))


def find(name: str) -> Job | None:
    return _jobs.get(name) or _jobs.get(_aliases.get(name, ""))


def get(name: str) -> Job:
    job = find(name)
    if job is None:
        raise UnknownJob(
            f"No job is registered as {name!r}; declare it with @job in a jobs.py"
            " of an installed app, or list its former name in aliases."
        )
    return job


def all_jobs() -> list[Job]:
    return sorted(_jobs.values(), key=lambda job: job.name)


def known_names() -> frozenset[str]:
    """Every name that this process can run, former ones included."""
    return frozenset(_jobs) | frozenset(_aliases)


def unlimited_names() -> frozenset[str]:
    """Those of them whose runs count against no limit."""
    return frozenset(name for name in known_names() if not get(name).policy.is_limited)


def remove(name: str) -> None:
    """Forget a job; for tests that declare their own."""
    job = _jobs.pop(name, None)
    if job is not None:
        for alias in job.aliases:
            _aliases.pop(alias, None)


def _is_same_function(one: Job, other: Job) -> bool:
    # A module that is loaded again declares the same function anew; that is no conflict.
    return one.where == other.where
