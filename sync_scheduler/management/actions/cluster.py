"""What `doctor` finds in the rows: who leads, who works, what nobody serves, what is late."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sync_scheduler import checks, conf
from sync_scheduler.jobs import registry
from sync_scheduler.management.actions.finding import LARGEST_OFFSET_SECONDS, Finding, Seen
from sync_scheduler.store.locking import database_now
from sync_scheduler.store.reports import status, troubles

_START = "Start `manage.py runscheduler`, on one node or several."


def look() -> list[Finding]:
    now = database_now()
    seen = Seen(
        now=now,
        nodes=status.alive_nodes(now),
        waiting=status.waiting(now),
        has_schedules=troubles.has_schedules(),
    )
    looks: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
        _leader,
        _nodes,
        _clocks,
        _queues,
        _jobs,
        _schedules,
        _dead_letters,
    )
    return [finding for one in looks for finding in one(seen)]


def _leader(seen: Seen) -> Iterator[Finding]:
    leader = status.leader(seen.now)
    if leader is not None:
        message = f"{leader['node']} leads, epoch {leader['epoch']}."
        yield Finding(level="ok", check="leader", message=message)
        return
    yield Finding(
        level="error" if seen.has_schedules else "warning",
        check="leader",
        message="Nobody leads, so no schedule is dispatched.",
        hint=_START,
    )


def _nodes(seen: Seen) -> Iterator[Finding]:
    working = troubles.workers(seen.nodes)
    if working:
        message = f"{len(seen.nodes)} alive, {len(working)} of them work."
        yield Finding(level="ok", check="nodes", message=message)
    else:
        yield Finding(
            level="error" if seen.is_needed else "warning",
            check="nodes",
            message="No worker is alive, so no Run is executed.",
            hint=_START,
        )
    for what in ("version", "tzdata"):
        if len({getattr(node, what) for node in seen.nodes}) > 1:
            yield Finding(
                level="warning",
                check="nodes",
                message=f"The nodes differ in {what}.",
                hint="Finish the deployment, so that all nodes run the same.",
            )


def _queues(seen: Seen) -> Iterator[Finding]:
    if not troubles.workers(seen.nodes):
        return  # said already
    waiting = {queue for queue, number in seen.waiting.items() if number}
    stuck = troubles.unserved(waiting, seen.nodes)
    idle = troubles.unserved({job.policy.queue for job in registry.all_jobs()}, seen.nodes)
    hint = "Start a worker with --queues that names them, or without --queues."
    if stuck:
        message = f"Runs wait in queues that no worker serves: {stuck}."
        yield Finding(level="error", check="queues", message=message, hint=hint)
    elif idle:
        message = f"No worker serves these queues of jobs: {idle}."
        yield Finding(level="warning", check="queues", message=message, hint=hint)
    else:
        yield Finding(level="ok", check="queues", message="Each is served.")


def _jobs(seen: Seen) -> Iterator[Finding]:
    known = troubles.known_jobs(seen.nodes) or registry.known_names()
    unknown = troubles.names(troubles.scheduled_jobs() - known)
    if unknown:
        yield Finding(
            level="error",
            check="jobs",
            message=f"Schedules want jobs that no node knows: {unknown}.",
            hint="Deploy the code that declares them, list former names in aliases,"
            " or remove the schedules.",
        )
    else:
        yield Finding(level="ok", check="jobs", message="Each scheduled job is known.")


def _schedules(seen: Seen) -> Iterator[Finding]:
    late = troubles.overdue(seen.now, conf.get().MISFIRE_GRACE)
    failing = troubles.in_error()
    if late:
        message = f"Overdue: {late}."
        yield Finding(level="error", check="schedules", message=message, hint=_START)
    if failing:
        yield Finding(
            level="error",
            check="schedules",
            message=f"Could not be dispatched: {failing}.",
            hint="`manage.py scheduler list` says why.",
        )
    left_out = checks.check_inputs()
    for fault in left_out:
        hint = fault.hint or ""
        yield Finding(level="error", check="schedules", message=str(fault.msg), hint=hint)
    if not late and not failing and not left_out:
        yield Finding(level="ok", check="schedules", message="None is overdue or in error.")


def _dead_letters(seen: Seen) -> Iterator[Finding]:
    number = troubles.open_letters()
    if number:
        yield Finding(
            level="warning",
            check="dead letters",
            message=f"{number} wait for somebody to act.",
            hint="Retry or discard them in the admin.",
        )


def _clocks(seen: Seen) -> Iterator[Finding]:
    wrong = troubles.names(
        node.name for node in seen.nodes if abs(node.clock_offset) > LARGEST_OFFSET_SECONDS
    )
    if wrong:
        yield Finding(
            level="warning",
            check="clock",
            message=f"Clocks that are more than 2 s off the database's: {wrong}.",
            hint="Let these nodes keep time by NTP; they do not lead until then.",
        )
