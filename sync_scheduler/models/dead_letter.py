"""DeadLetter: a slot that could not be dispatched, or a Run that ended in failure."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.namespaced import Namespaced, NamespacedManager
from sync_scheduler.models.run import Run
from sync_scheduler.models.schedule import Schedule


class DeadLetter(Namespaced):
    class Kind(models.TextChoices):
        SLOT = "slot", _("slot not dispatched")
        RUN = "run", _("run failed")

    class Resolution(models.TextChoices):
        OPEN = "", _("open")
        RETRIED = "retried", _("retried")
        DISCARDED = "discarded", _("discarded")

    kind = models.CharField(max_length=10, choices=Kind.choices)
    run = models.ForeignKey(
        Run,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_constraint=False,
        related_name="dead_letters",
    )
    schedule = models.ForeignKey(
        Schedule,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_constraint=False,
        related_name="dead_letters",
    )
    schedule_name = models.CharField(max_length=200, blank=True, default="")
    job = models.CharField(max_length=200)
    slot = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True, default="")
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    resolution = models.CharField(
        max_length=10, choices=Resolution.choices, blank=True, default=Resolution.OPEN
    )
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True, default="")
    note = models.CharField(max_length=500, blank=True, default="")

    objects = NamespacedManager["DeadLetter"]()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        indexes = (
            models.Index(fields=("namespace", "resolution", "created_at"), name="dead_letter_open"),
        )

    def __str__(self) -> str:
        return f"{self.schedule_name or self.job}: {self.reason}"
