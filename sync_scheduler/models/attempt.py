"""Attempt: one try at a Run, kept after it ended."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.run import Run


class Attempt(models.Model):
    class Outcome(models.TextChoices):
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        RETRIED = "retried", _("failed, tried again")
        TIMED_OUT = "timed_out", _("timed out")
        CANCELLED = "cancelled", _("cancelled")
        CRASHED = "crashed", _("its process died")
        LOST = "lost", _("its node stopped reporting")
        GIVEN_BACK = "given_back", _("given back")

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_constraint=False, related_name="attempts"
    )
    number = models.PositiveIntegerField()
    node = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    error = models.TextField(blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    retry_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.run_id}"
