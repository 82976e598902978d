"""Leader: who may dispatch now. Term: who might, from when to when."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.namespaced import Namespaced, NamespacedManager


class Leader(models.Model):
    """One row per namespace. The epoch only grows; the database's clock decides expiry."""

    namespace = models.CharField(max_length=64, primary_key=True)
    epoch = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, blank=True, default="")
    since = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("leader")
        verbose_name_plural = _("leaders")

    def __str__(self) -> str:
        return f"{self.holder} ({self.epoch})"


class Term(Namespaced):
    epoch = models.BigIntegerField()
    holder = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=200, blank=True, default="")

    objects = NamespacedManager["Term"]()

    class Meta:
        ordering = ("-epoch",)
        verbose_name = _("term")
        verbose_name_plural = _("terms")
        constraints = (
            models.UniqueConstraint(fields=("namespace", "epoch"), name="one_term_per_epoch"),
        )

    def __str__(self) -> str:
        return f"term {self.epoch}"
