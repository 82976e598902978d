"""Step: a stored sub-result inside a Run, so that a retry resumes behind it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.payload_field import PayloadField
from sync_scheduler.models.run import Run


class Step(models.Model):
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="steps"
    )
    name = models.CharField(max_length=200)
    result = PayloadField(null=True)
    attempt = models.PositiveIntegerField()
    finished_at = models.DateTimeField()

    class Meta:
        ordering = ("id",)
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        constraints = (models.UniqueConstraint(fields=("run", "name"), name="one_step_per_name"),)

    def __str__(self) -> str:
        return self.name
