"""Somebody who edits schedules all the time, and keeps a journal of what was committed when.

Runs in a process of its own (`Cluster.run`) and prints the journal as JSON. Times are the
database's: that of an end is read after its commit, that of a beginning before it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

from sync_scheduler import cron
from sync_scheduler.models import Schedule
from sync_scheduler.store.locking import database_now
from tests.testapp import jobs

RULES = ("* * * * * *", "*/2 * * * * *", "*/3 * * * * *")


class Editor:
    """`off` holds, by name, since when a schedule must not dispatch; `journal` such spans."""

    def __init__(self, names: list[str], seed: str) -> None:
        self.chance = random.Random(seed)
        self.names = names
        self.off: dict[str, tuple[str, str]] = {}
        self.journal: list[tuple[str, str, str, str]] = []
        self.written: dict[str, int] = {}
        self.stale: dict[str, Schedule] = {}
        self.lost: list[str] = []
        self.number = 0

    def edit(self) -> None:
        self.number += 1
        name = self.chance.choice(self.names)
        if name in self.off:
            self._bring_back(name)
            return
        edits: list[Callable[[str], None]] = [
            *(self._switch_off, self._pause, self._remove),
            *(self._change_rule, self._save_stale, self._save_fresh),
        ]
        self.chance.choice(edits)(name)

    def _ended(self, name: str, how: str) -> None:
        self.off[name] = (how, database_now().isoformat())

    def _bring_back(self, name: str) -> None:
        how, since = self.off.pop(name)
        self.journal.append((name, how, since, database_now().isoformat()))
        if how == "removed":
            self._register(name, self.chance.choice(RULES))
        elif how == "paused":
            Schedule.objects.get(name=name).resume()
        else:
            schedule = Schedule.objects.get(name=name)
            schedule.enabled = True
            schedule.save()

    def _switch_off(self, name: str) -> None:
        schedule = Schedule.objects.get(name=name)
        schedule.enabled = False
        schedule.save()
        self._ended(name, "disabled")

    def _pause(self, name: str) -> None:
        Schedule.objects.get(name=name).pause(note="edited")
        self._ended(name, "paused")

    def _remove(self, name: str) -> None:
        assert Schedule.objects.unregister(name)
        self._ended(name, "removed")
        self.written.pop(name, None)
        self.stale.pop(name, None)

    def _change_rule(self, name: str) -> None:
        self._register(name, self.chance.choice(RULES))

    def _register(self, name: str, expression: str) -> None:
        rule = cron(expression, tz="UTC")
        Schedule.objects.register(
            name, job=jobs.noop, rule=rule, overlap="concurrent", meta={"n": self.number}
        )
        self.written[name] = self.number

    def _save_fresh(self, name: str) -> None:
        schedule = Schedule.objects.get(name=name)
        self._save(schedule)
        self.stale.setdefault(name, schedule)

    def _save_stale(self, name: str) -> None:
        """What a form does that somebody left open: all fields as they were back then."""
        schedule = self.stale.pop(name, None)
        if schedule is None:
            self._save_fresh(name)
            return
        before = Schedule.objects.get(name=name).last_slot
        schedule.enabled = True
        self._save(schedule)
        after = Schedule.objects.get(name=name).last_slot
        if before is not None and (after is None or after < before):
            self.lost.append(f"{name}: the watermark went from {before} back to {after}")

    def _save(self, schedule: Schedule) -> None:
        schedule.meta = {"n": self.number}
        schedule.save()
        self.written[schedule.name] = self.number


def main(names: list[str], edits: int, seed: str) -> None:
    editor = Editor(names, seed)
    for _ in range(edits):
        editor.edit()
        time.sleep(editor.chance.uniform(0, 0.03))
    for name in sorted(editor.off):
        editor._bring_back(name)
    kept = dict(Schedule.objects.filter(name__in=names).values_list("name", "meta"))
    for name, number in editor.written.items():
        if kept[name] != {"n": number}:
            editor.lost.append(f"{name}: {kept[name]} instead of {number}")
    report: dict[str, Any] = {"spans": editor.journal, "lost": editor.lost}
    print(json.dumps(report))  # noqa: T201  # what the test reads
