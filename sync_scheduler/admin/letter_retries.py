"""Retrying dead letters: runs are submitted again, slots that were not dispatched are filled."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from sync_scheduler import conf
from sync_scheduler.admin.letters import Found
from sync_scheduler.errors import SchedulerError
from sync_scheduler.models import DeadLetter, Run
from sync_scheduler.store import dead_letters

if TYPE_CHECKING:
    from sync_scheduler.admin.section import Section

_MOST_PROBLEMS = 5


@dataclasses.dataclass(slots=True, kw_only=True)
class Done:
    runs: list[Run] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)

    def fail(self, letter: DeadLetter, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"{letter.schedule_name or letter.job}: {problem}")


def retry_all(section: Section, request: HttpRequest, found: Found, token: str) -> Done:
    """Each letter by itself: one that cannot be retried does not keep others from it."""
    done = Done()
    for group in found.groups:
        for letter in group.letters:
            if not section.may(request, "retry_run", letter):
                done.fail(letter, _("you may not retry it"))
                continue
            try:
                run = _retry(letter, request.user.get_username())
            except SchedulerError as error:
                done.fail(letter, str(error))
                continue
            if run is not None:
                done.runs.append(run)
                section.log_change(request, letter, f"Retried as {run.id}")
    return done


def _retry(letter: DeadLetter, by: str) -> Run | None:
    """None: somebody else was quicker.

    Closing the letter and submitting the Run are one transaction, and a letter is closed once:
    a second click finds it closed.
    """
    with transaction.atomic(using=conf.get().DATABASE):
        if not dead_letters.resolve([letter.id], DeadLetter.Resolution.RETRIED, by=by):
            return None
        run = Run.objects.filter(id=letter.run_id).first() if letter.run_id else None
        if letter.kind == DeadLetter.Kind.SLOT:
            return _fill(letter, by)
        if run is None:
            raise SchedulerError(_("Its run has been deleted; there is nothing left to retry."))
        return run.retry(by=by)


def _fill(letter: DeadLetter, by: str) -> Run:
    schedule = letter.schedule
    if schedule is None or letter.slot is None:
        raise SchedulerError(_("Its schedule is gone; there is nothing left to retry."))
    filled = schedule.backfill(letter.slot, letter.slot, again=True, by=by)
    if not filled:
        raise SchedulerError(
            _("Its schedule has another rule now, without this slot; trigger it now instead.")
        )
    return filled[0]
