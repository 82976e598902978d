"""The state of a schedule in one mark and one line: paused, overdue, broken, or its last end."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from sync_scheduler import conf
from sync_scheduler.admin import causes, marks, moments
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.target import CELERY_PREFIX
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Schedule


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`line` says more than the mark's word; empty when there is no more to say."""

    mark: marks.Mark
    line: str = ""


def overdue_after() -> dt.timedelta:
    """A change of leader may take this long; what is later is overdue."""
    return dt.timedelta(seconds=2 * conf.get().LEADER_LEASE)


def is_overdue(schedule: Schedule, now: dt.datetime) -> bool:
    return (
        schedule.enabled
        and not schedule.is_paused
        and schedule.next_run_at is not None
        and schedule.next_run_at < now - overdue_after()
    )


def is_known(job: str) -> bool:
    return job.startswith(CELERY_PREFIX) or registry.find(job) is not None


def standing(schedule: Schedule, last: Run | None, now: dt.datetime) -> Standing:
    """What matters most about it now."""
    if schedule.is_paused:
        return Standing(mark=marks.PAUSED, line=pause_line(schedule, now))
    if not schedule.enabled:
        return Standing(mark=marks.OFF, line=schedule.note)
    if not is_known(schedule.job):
        line = _("No job named %(job)s is registered here.") % {"job": schedule.job}
        return Standing(mark=marks.WARNING, line=line)
    if schedule.error:
        return Standing(mark=marks.WARNING, line=causes.last_line(schedule.error))
    if is_overdue(schedule, now):
        return Standing(mark=marks.OVERDUE, line=_("Its time has come, and nobody dispatched it."))
    if last is None:
        if schedule.next_run_at is None:
            return Standing(mark=marks.ENDED)
        return Standing(mark=marks.DUE, line="")
    mark = marks.of_run(last.status, attempt=last.attempt, reason=last.reason)
    line = ""
    if last.status not in {State.COMPLETED, State.RUNNING}:
        line = causes.in_words(last.error, last.reason)
    return Standing(mark=mark, line=line)


def pause_line(schedule: Schedule, now: dt.datetime) -> str:
    """Until when, by whom, why."""
    parts = {
        "until": _("until %(at)s")
        % {"at": moments.wall(schedule.paused_until, schedule.timezone, now=now)}
        if schedule.paused_until is not None
        else _("until somebody resumes it"),
        "by": _("by %(name)s") % {"name": schedule.paused_by} if schedule.paused_by else "",
        "note": f"“{schedule.pause_note}”" if schedule.pause_note else "",
        "then": _("(then the newest slot that passed is run)") if schedule.holds_slots_back else "",
    }
    return " ".join(part for part in parts.values() if part)


def sentence(schedule: Schedule) -> str:
    """`Every day at 02:00, Europe/Berlin`."""
    rule = schedule.rule or schedule.expression
    if schedule.kind == Schedule.Kind.INTERVAL:
        return rule
    return f"{rule}, {schedule.timezone}"


def next_run(schedule: Schedule, now: dt.datetime) -> SafeString:
    """The next run; why there is none; never a time in the past without the word overdue."""
    at = schedule.next_run_at
    if not schedule.enabled:
        return moments.element(None, now=now, otherwise=_("not planned: switched off"))
    if schedule.is_paused and schedule.paused_until is None:
        return moments.element(None, now=now, otherwise=_("not planned: paused"))
    if at is None:
        return moments.element(None, now=now, otherwise=_("none: the schedule has ended"))
    if schedule.is_paused and schedule.paused_until is not None:
        return moments.element(
            None,
            now=now,
            otherwise=_("first run after %(at)s")
            % {"at": moments.wall(schedule.paused_until, schedule.timezone, now=now)},
        )
    shown = moments.element(at, schedule.timezone, now=now)
    if at < now - overdue_after():
        return marks.OVERDUE.saying(
            _("overdue: %(since)s") % {"since": moments.wall(at, schedule.timezone, now=now)}
        )
    return shown
