"""Run: one durable piece of work, born from a slot, a trigger or a submit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler import lifecycle
from sync_scheduler.models.identity import uuid7
from sync_scheduler.models.indexes import PartialIndex
from sync_scheduler.models.namespaced import Namespaced, NamespacedManager
from sync_scheduler.models.payload_field import PayloadField
from sync_scheduler.models.schedule import Schedule

if TYPE_CHECKING:
    from sync_scheduler.intake.trail import TrailEvent

ACTIVE = models.Q(status__in=("submitted", "running"))
READY = models.Q(status="submitted", waiting_for__isnull=True)
# True of every row; see `run_next`.
ANY_PRIORITY = models.Q(priority__gte=-32768)
# Waiting for another run. (A cancelled one may wait too: for its own handler to end.)
HELD = models.Q(status="submitted", waiting_for__isnull=False)
RUNNING = models.Q(status="running")
# Ended, but not as it should: the few that people look for among all that completed.
TROUBLED = models.Q(status__in=("failed", "timed_out", "cancelled", "skipped"))


class Run(Namespaced):
    class Status(models.TextChoices):
        SUBMITTED = lifecycle.State.SUBMITTED.value, _("submitted")
        RUNNING = lifecycle.State.RUNNING.value, _("running")
        COMPLETED = lifecycle.State.COMPLETED.value, _("completed")
        FAILED = lifecycle.State.FAILED.value, _("failed")
        CANCELLED = lifecycle.State.CANCELLED.value, _("cancelled")
        TIMED_OUT = lifecycle.State.TIMED_OUT.value, _("timed out")
        SKIPPED = lifecycle.State.SKIPPED.value, _("skipped")

    class Trigger(models.TextChoices):
        SLOT = lifecycle.Trigger.SLOT.value, _("schedule")
        MANUAL = lifecycle.Trigger.MANUAL.value, _("run now")
        SUBMIT = lifecycle.Trigger.SUBMIT.value, _("submit")
        BACKFILL = lifecycle.Trigger.BACKFILL.value, _("backfill")
        RETRY = lifecycle.Trigger.RETRY.value, _("retry")

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.CharField(max_length=200)
    queue = models.CharField(max_length=100, default="default")
    priority = models.SmallIntegerField(default=0)
    input = PayloadField(default=dict, blank=True)
    key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001  # NULL: no key
    dedupe = models.UUIDField(null=True, editable=False)
    # No database constraint on a table through which rows stream; see docs/adr/0004.
    schedule = models.ForeignKey(
        Schedule,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_constraint=False,
        db_index=False,
        related_name="runs",
    )
    schedule_name = models.CharField(max_length=200, blank=True, default="")
    slot = models.DateTimeField(null=True, blank=True)
    trigger = models.CharField(max_length=10, choices=Trigger.choices, default=Trigger.SUBMIT)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.SUBMITTED)
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=1)
    run_at = models.DateTimeField()
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    result = PayloadField(null=True, blank=True)
    error = models.TextField(blank=True, default="")
    progress = models.FloatField(null=True, blank=True)
    progress_message = models.CharField(max_length=500, blank=True, default="")
    node = models.CharField(max_length=200, blank=True, default="")
    reason = models.CharField(max_length=500, blank=True, default="")
    meta = models.JSONField(default=dict, blank=True)

    timeout_seconds = models.FloatField(null=True, blank=True)
    # How long its node may be silent before others take it up; NULL: the setting NODE_LEASE.
    lease_seconds = models.FloatField(null=True, blank=True)
    # Grows with every claim and is never given back: the proof that an attempt is the current one.
    token = models.PositiveIntegerField(default=0, editable=False)
    crashes = models.PositiveSmallIntegerField(default=0, editable=False)
    # It was running when a process died and may have been the cause: next time it runs alone.
    suspect = models.BooleanField(default=False, editable=False)
    # The schedule whose runs must not overlap with this one; NULL: may run beside others.
    guard = models.BigIntegerField(null=True, editable=False)
    # The limit that this run counts against (concurrency, rate); NULL: none.
    gate = models.CharField(max_length=300, null=True, editable=False)  # noqa: DJ001
    # What a ready run waits for; NULL: nothing. Out of the ready index while it waits. A cancelled
    # one that holds a place waits for its handler; see `store.lingering`.
    waiting_for = models.CharField(max_length=300, null=True, editable=False)  # noqa: DJ001
    epoch = models.BigIntegerField(null=True, editable=False)
    retry_of = models.UUIDField(null=True, editable=False)
    parent = models.UUIDField(null=True, editable=False)
    depth = models.PositiveSmallIntegerField(default=0, editable=False)

    objects = NamespacedManager["Run"]()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        indexes = (
            PartialIndex(
                name="run_ready",
                fields=["namespace", "queue", "-priority", "run_at", "id"],
                where=READY,
                fallback=["namespace", "status", "queue", "waiting_for", "-priority", "run_at"],
            ),
            # For the poll of all queues at once, which would have to sort all that is ready. Only
            # who says `ANY_PRIORITY` gets it: for a single queue it may be the longest way round.
            PartialIndex(
                name="run_next",
                fields=["namespace", "-priority", "run_at", "id"],
                where=READY & ANY_PRIORITY,
                fallback=["namespace", "status", "waiting_for", "-priority", "run_at", "id"],
            ),
            PartialIndex(
                name="run_waiting",
                fields=["waiting_for", "-priority", "run_at", "id"],
                where=models.Q(waiting_for__isnull=False),
            ),
            # For the quotas of queues. MySQL counts along `run_ready`, which has them all.
            PartialIndex(
                name="run_parked",
                fields=["namespace", "queue"],
                where=models.Q(waiting_for__isnull=False),
                only_partial=True,
            ),
            PartialIndex(
                name="run_running", fields=["node"], where=RUNNING, fallback=["status", "node"]
            ),
            PartialIndex(
                name="run_active_of_schedule",
                fields=["schedule"],
                where=ACTIVE & models.Q(schedule__isnull=False),
                # Not the other way round: MySQL would take it for `run_history`, and sort.
                fallback=["status", "schedule"],
            ),
            PartialIndex(
                name="run_history",
                fields=["schedule", "id"],
                where=models.Q(schedule__isnull=False),
            ),
            PartialIndex(
                name="run_gate",
                fields=["gate"],
                where=RUNNING & models.Q(gate__isnull=False),
                fallback=["gate", "status"],
            ),
            # With what is counted by, so that the last day is counted without reading its rows.
            PartialIndex(
                name="run_finished",
                fields=["finished_at", "namespace", "status"],
                where=models.Q(finished_at__isnull=False),
            ),
            PartialIndex(name="run_troubled", fields=["status", "id"], where=TROUBLED),
            PartialIndex(
                name="one_run_per_key",
                fields=["dedupe"],
                where=models.Q(dedupe__isnull=False),
                unique=True,
            ),
            PartialIndex(
                name="one_running_per_schedule",
                fields=["guard"],
                where=RUNNING & models.Q(guard__isnull=False),
                unique=True,
                generated="CASE WHEN status = 'running' THEN guard END",
            ),
        )
        permissions = (
            ("cancel_run", "Can cancel a run"),
            ("retry_run", "Can retry a run"),
            ("view_payload", "Can see the input and result of a run"),
        )

    def __str__(self) -> str:
        return f"{self.schedule_name or self.job} {self.short_id}"

    @property
    def short_id(self) -> str:
        """For people. The end of it: ids made in the same minute begin alike."""
        return str(self.id)[-8:]

    @property
    def is_finished(self) -> bool:
        return self.status in lifecycle.TERMINAL

    def join(self, timeout: float | None = None) -> Run:
        """Wait for the end; returns this Run, refreshed. `JoinTimeout` if it takes longer."""
        from sync_scheduler.intake import runs

        return runs.join(self, timeout)

    def cancel(self, reason: str | None = "", by: str = "") -> bool:
        """End it as cancelled unless it has ended. True if this call did."""
        from sync_scheduler.intake import runs

        return runs.cancel(self, reason=reason or "", by=by)

    def retry(self, by: str = "", key: str | None = None) -> Run:
        """The same job and input again, as a new Run that is linked to this one."""
        from sync_scheduler.intake import runs

        return runs.retry(self, by=by, key=key)

    def events(self) -> list[TrailEvent]:
        """What happened to it, oldest first."""
        from sync_scheduler.intake import trail

        return trail.events(self)

    def follow(self, timeout: float | None = None) -> Iterator[TrailEvent]:
        """What happened, then what happens, until it has ended."""
        from sync_scheduler.intake import trail

        return trail.follow(self, timeout)
