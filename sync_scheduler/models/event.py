"""Event: what happened to a Run beside its attempts (progress, cancelling, giving back).

Submitting, starting and ending are read off the Run and its Attempts; a row for each of them
would double what a Run costs and say nothing new.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.run import Run


class Event(models.Model):
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_constraint=False, related_name="event_rows"
    )
    at = models.DateTimeField()
    kind = models.CharField(max_length=20)
    node = models.CharField(max_length=200, blank=True, default="")
    attempt = models.PositiveIntegerField(default=0)
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ("id",)
        verbose_name = _("event")
        verbose_name_plural = _("events")

    def __str__(self) -> str:
        return self.kind
