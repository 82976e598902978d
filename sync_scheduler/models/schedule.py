"""Schedule: which job, when, with what input; and how far it has come.

What people decide (rule, input, policies, enabled, pause) and what the dispatcher records
(`next_run_at`, `last_slot`, the failure counter) share a row. The second kind is written only by
conditional updates in `store`; `save()` leaves it alone, so that a form which was opened an hour
ago cannot rewind a schedule. Only a changed rule, or switching it on or off, sets the next run
anew. Every change raises `version`, which the dispatcher names in its writes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from sync_scheduler import clock, conf
from sync_scheduler.jobs import registry
from sync_scheduler.jobs.target import CELERY_PREFIX
from sync_scheduler.models.namespaced import Namespaced, NamespacedManager
from sync_scheduler.models.payload_field import PayloadField
from sync_scheduler.timing import slots
from sync_scheduler.timing.description import describe
from sync_scheduler.timing.rules import Recurrence

if TYPE_CHECKING:
    from sync_scheduler.intake.schedules import Registration
    from sync_scheduler.models.run import Run
    from sync_scheduler.timing.rules import Rule

RULE_FIELDS = frozenset({"kind", "expression", "timezone", "anchor_at", "start_at", "end_at"})
RUNTIME_FIELDS = frozenset({"next_run_at", "last_slot", "failures", "retry_dispatch_at", "error"})
# Changed by pause() and resume() alone, for the same reason.
PAUSE_FIELDS = frozenset({"paused_at", "paused_until", "pause_note", "paused_by"})
# When a pause with an open end lets the dispatcher look again.
FAR_AWAY = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
# What save() maintains by itself.
_BOOKKEEPING = frozenset({"version", "created_at", "updated_at", "rule"})


class ScheduleManager(NamespacedManager["Schedule"]):
    """The verbs that people use; they live in `intake.schedules`."""

    def register(self, name: str, *, job: Any, rule: Rule, **options: Any) -> Registration:
        """Create or update the schedule of this name; safe to repeat, from any node."""
        from sync_scheduler.intake import schedules

        return schedules.register(name, job=job, rule=rule, **options)

    def add(self, name: str, *, job: Any, rule: Rule, **options: Any) -> Schedule:
        """Create a schedule; `ScheduleExists` if the name is taken."""
        from sync_scheduler.intake import schedules

        return schedules.add(name, job=job, rule=rule, **options)

    def unregister(self, name: str) -> bool:
        """Remove the schedule; what it has dispatched goes on. False if there was none."""
        from sync_scheduler.intake import schedules

        return schedules.unregister(name)


class Schedule(Namespaced):
    class Kind(models.TextChoices):
        CRON = "cron", _("cron")
        INTERVAL = "interval", _("interval")
        ONCE = "once", _("once")

    class Misfire(models.TextChoices):
        SKIP = "skip", _("skip what was missed")
        CATCH_UP_ONE = "catch_up_one", _("run the newest missed slot")
        CATCH_UP_ALL = "catch_up_all", _("run all missed slots, up to the limit")

    class Overlap(models.TextChoices):
        SKIP = "skip", _("skip while the previous run is active")
        QUEUE = "queue", _("run as soon as the previous one ends")
        CONCURRENT = "concurrent", _("run beside it")

    class Source(models.TextChoices):
        CODE = "code", _("code")
        ADMIN = "admin", _("admin")
        API = "api", _("API")

    name = models.CharField(max_length=200)
    job = models.CharField(max_length=200)
    input = PayloadField(default=dict, blank=True)
    rule = models.CharField(max_length=255, editable=False, default="")
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.CRON)
    expression = models.CharField(max_length=200)
    timezone = models.CharField(max_length=64, default="UTC")
    anchor_at = models.DateTimeField(null=True, blank=True)
    start_at = models.DateTimeField(null=True, blank=True)
    end_at = models.DateTimeField(null=True, blank=True)
    jitter_seconds = models.FloatField(default=0)
    misfire = models.CharField(max_length=20, choices=Misfire.choices, default=Misfire.SKIP)
    max_catch_up = models.PositiveIntegerField(default=100)
    misfire_grace = models.FloatField(null=True, blank=True)
    overlap = models.CharField(max_length=20, choices=Overlap.choices, default=Overlap.SKIP)
    enabled = models.BooleanField(default=True)
    meta = models.JSONField(default=dict, blank=True)
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.API)
    note = models.CharField(max_length=500, blank=True, default="")
    declared = PayloadField(null=True, blank=True, editable=False)

    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_until = models.DateTimeField(null=True, blank=True, editable=False)
    pause_note = models.CharField(max_length=500, blank=True, default="", editable=False)
    paused_by = models.CharField(max_length=150, blank=True, default="", editable=False)

    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    # What the dispatcher records; never written by save().
    next_run_at = models.DateTimeField(null=True, editable=False)
    last_slot = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveSmallIntegerField(default=0, editable=False)
    retry_dispatch_at = models.DateTimeField(null=True, editable=False)
    error = models.TextField(blank=True, default="", editable=False)

    objects = ScheduleManager()

    class Meta:
        ordering = ("name",)
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        constraints = (
            models.UniqueConstraint(fields=("namespace", "name"), name="one_schedule_per_name"),
        )
        indexes = (
            # Exactly the dispatcher's question, in the order in which it pages.
            models.Index(fields=("namespace", "enabled", "next_run_at", "id"), name="schedule_due"),
        )
        permissions = (
            ("trigger_schedule", "Can trigger a schedule now"),
            ("pause_schedule", "Can pause and resume a schedule"),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Only what is registered can be scheduled; no name is trusted because it was written."""
        super().clean()
        if registry.find(self.job) is None and not self.job.startswith(CELERY_PREFIX):
            raise ValidationError({"job": _("No job of this name is registered.")})

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Store what people decide. The dispatcher's columns follow only from that."""
        using = kwargs.get("using") or self._state.db or conf.get().DATABASE
        with transaction.atomic(using=using):
            if self._state.adding:
                self._prepare_birth()
            else:
                update_fields = self._prepare_change(update_fields, using)
            super().save(*args, update_fields=update_fields, **{**kwargs, "using": using})

    def _prepare_birth(self) -> None:
        now = clock.now()
        self._complete_rule(now)
        self.created_at = self.updated_at = now
        self.next_run_at = self._first_run(now) if self.enabled else None

    def _prepare_change(self, update_fields: Iterable[str] | None, using: str) -> set[str]:
        """Which columns to write. The row is locked, so that what is compared stays true."""
        names = _decided_fields()
        wanted = names if update_fields is None else names & set(update_fields)
        manager, now = type(self)._base_manager.using(using), clock.now()
        stored = manager.select_for_update().filter(pk=self.pk).first()
        if stored is None:
            return wanted
        if wanted & RULE_FIELDS:
            self._complete_rule(now)
        changed = {name for name in wanted if getattr(self, name) != getattr(stored, name)}
        for name in (*RUNTIME_FIELDS, *PAUSE_FIELDS, "version", "created_at", "updated_at"):
            setattr(self, name, getattr(stored, name))
        if not changed:
            return wanted
        self.version, self.updated_at = stored.version + 1, now
        # Whatever kept it from being dispatched may just have been mended.
        self.failures, self.error = 0, ""
        self.retry_dispatch_at = stored.retry_dispatch_at if stored.holds_slots_back else None
        written = wanted | {"version", "updated_at", "failures", "retry_dispatch_at", "error"}
        if changed & (RULE_FIELDS | {"enabled"}):
            from sync_scheduler.intake import schedules

            self.last_slot = schedules.leave_rule(stored, now)
            self.next_run_at = self._first_run(now) if self.enabled else None
            written |= {"next_run_at", "last_slot", "rule"}
        return written

    def _complete_rule(self, now: dt.datetime) -> None:
        if self.kind == self.Kind.INTERVAL and self.anchor_at is None:
            self.anchor_at = self.start_at or now.replace(microsecond=0)
        self.rule = describe(self.recurrence)[:255]

    def _first_run(self, now: dt.datetime) -> dt.datetime | None:
        """The first slot of a rule that holds from now on."""
        if self.kind == self.Kind.ONCE:
            # A reminder for a moment ago is late, not lost.
            grace = conf.get().MISFIRE_GRACE if self.misfire_grace is None else self.misfire_grace
            at = self.recurrence.instant
            if at > now - dt.timedelta(seconds=grace) and at != self.last_slot:
                return at
            return None
        return slots.next_after(self.recurrence, now)

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(
            kind=self.kind,  # type: ignore[arg-type]  # the column's choices are the same words
            expression=self.expression,
            timezone=self.timezone,
            anchor=self.anchor_at,
            start_at=self.start_at,
            end_at=self.end_at,
        )

    @property
    def is_paused(self) -> bool:
        if self.paused_at is None:
            return False
        return self.paused_until is None or self.paused_until > clock.now()

    def pause_end(self, now: dt.datetime) -> dt.datetime | None:
        """Until when slots pass because of a pause, now at the latest; None: there is none."""
        if self.paused_at is None:
            return None
        return now if self.paused_until is None else min(self.paused_until, now)

    @property
    def holds_slots_back(self) -> bool:
        """Whether it is paused and will run the newest passed slot when the pause ends.

        Until then the dispatcher does not look at it: `retry_dispatch_at` is the pause's end.
        """
        return holds_back(self.paused_at, self.paused_until, self.retry_dispatch_at)

    def trigger_now(self, key: str | None = None, **options: Any) -> Run:
        """Submit a Run of this schedule's job with its stored input, now."""
        from sync_scheduler.intake import schedules

        return schedules.trigger(self, key=key, **options)

    def pause(
        self,
        note: str = "",
        until: dt.datetime | None = None,
        by: str = "",
        *,
        catch_up: bool = False,
    ) -> None:
        """Let slots pass without a Run, until `until` or until resumed.

        `catch_up`: when the pause ends, the newest of them is run, once.
        """
        from sync_scheduler.intake import schedules

        schedules.pause(self, note=note, until=until, by=by, catch_up=catch_up)

    def resume(self) -> None:
        """Go on with the next future slot.

        What passed meanwhile is not made up for, unless the pause said so: then its newest slot is.
        """
        from sync_scheduler.intake import schedules

        schedules.resume(self)

    def preview(self, n: int = 10) -> list[dt.datetime]:
        """The next `n` slots, in UTC."""
        from sync_scheduler.intake import schedules

        return schedules.preview(self, n)

    def backfill(self, start: dt.datetime, end: dt.datetime, **options: Any) -> list[Run]:
        """Submit Runs for the slots from `start` to `end` that have none."""
        from sync_scheduler.intake import backfill

        return backfill.backfill(self, start, end, **options)


def holds_back(
    paused_at: dt.datetime | None,
    paused_until: dt.datetime | None,
    retry_dispatch_at: dt.datetime | None,
) -> bool:
    if paused_at is None or retry_dispatch_at is None:
        return False
    return retry_dispatch_at >= (FAR_AWAY if paused_until is None else paused_until)


def _decided_fields() -> set[str]:
    own = {f.name for f in Schedule._meta.concrete_fields if not f.primary_key}
    return own - RUNTIME_FIELDS - PAUSE_FIELDS - _BOOKKEEPING
