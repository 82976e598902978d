"""Letters: open dead letters, grouped by what they have in common."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence

from sync_scheduler import conf
from sync_scheduler.admin import causes
from sync_scheduler.admin.payloads import hide_in_letters
from sync_scheduler.models import DeadLetter

# How many are read to be grouped, and how many are retried at once.
MOST = 1_000
_ERROR_READ = 2_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures with one cause. `letters` newest first."""

    key: str
    cause: str
    letters: tuple[DeadLetter, ...]

    @property
    def count(self) -> int:
        return len(self.letters)

    @property
    def newest_at(self) -> dt.datetime:
        return self.letters[0].created_at

    @property
    def oldest_at(self) -> dt.datetime:
        return self.letters[-1].created_at

    @property
    def names(self) -> list[tuple[str, int]]:
        """Whose failures they are, with how many, the most first."""
        counts: dict[str, int] = {}
        for letter in self.letters:
            name = letter.schedule_name or letter.job
            counts[name] = counts.get(name, 0) + 1
        return sorted(counts.items(), key=lambda pair: -pair[1])

    @property
    def deleted_at(self) -> dt.datetime:
        """When the oldest one goes, with its Run."""
        return self.oldest_at + dt.timedelta(days=conf.get().RETENTION_DAYS)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    groups: tuple[Group, ...]
    count: int
    is_cut: bool


def open_since(
    since: dt.datetime | None,
    until: dt.datetime | None = None,
    *,
    cause: str = "",
    run: uuid.UUID | None = None,
) -> Found:
    """Open letters from then on, grouped, the largest group first. Two bounded queries."""
    query = DeadLetter.objects.filter(resolution=DeadLetter.Resolution.OPEN)
    if since is not None:
        query = query.filter(created_at__gte=since)
    if until is not None:
        query = query.filter(created_at__lte=until)
    if run is not None:
        query = query.filter(run_id=run)
    found = list(query.order_by("-created_at")[: MOST + 1])
    is_cut = len(found) > MOST
    groups = grouped(found[:MOST])
    if cause:
        groups = tuple(group for group in groups if group.key == cause)
    return Found(groups=groups, count=sum(group.count for group in groups), is_cut=is_cut)


def grouped(found: Sequence[DeadLetter]) -> tuple[Group, ...]:
    for letter in found:
        letter.error = letter.error[-_ERROR_READ:]
    hide_in_letters(found)
    by_cause: dict[str, list[DeadLetter]] = {}
    for letter in found:
        by_cause.setdefault(causes.masked(letter.error, letter.reason), []).append(letter)
    groups = [
        Group(
            key=causes.fingerprint(letters[0].error, letters[0].reason),
            cause=cause
            if len(letters) > 1
            else causes.in_words(letters[0].error, letters[0].reason),
            letters=tuple(letters),
        )
        for cause, letters in by_cause.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.count, -group.newest_at.timestamp())))
