"""Node: a running process that reports a heartbeat."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.namespaced import Namespaced, NamespacedManager


class Node(Namespaced):
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    roles = models.CharField(max_length=50, default="")
    version = models.CharField(max_length=50, default="")
    tzdata = models.CharField(max_length=50, blank=True, default="")
    queues = models.JSONField(default=list)
    jobs = models.JSONField(default=list)
    slots = models.PositiveIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    clock_offset = models.FloatField(default=0)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, blank=True)

    objects = NamespacedManager["Node"]()

    class Meta:
        ordering = ("name",)
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        constraints = (
            models.UniqueConstraint(fields=("namespace", "name"), name="one_node_per_name"),
        )

    def __str__(self) -> str:
        return self.name
