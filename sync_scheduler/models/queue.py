"""Queue: a lane of ready runs that somebody paused. Gate: a limit that runs count against."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sync_scheduler.models.namespaced import Namespaced, NamespacedManager


class QueueManager(NamespacedManager["Queue"]):
    """The verbs that people use; they live in `intake.queues`."""

    def pause(self, name: str, note: str = "") -> None:
        """Let nothing of this queue start until it is resumed."""
        from sync_scheduler.intake import queues

        queues.pause(name, note)

    def resume(self, name: str) -> bool:
        """Let it go on. False: it was not paused."""
        from sync_scheduler.intake import queues

        return queues.resume(name)


class Queue(Namespaced):
    """Only queues that are paused have a row."""

    name = models.CharField(max_length=100)
    paused_at = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=500, blank=True, default="")

    objects = QueueManager()

    class Meta:
        ordering = ("name",)
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        constraints = (
            models.UniqueConstraint(fields=("namespace", "name"), name="one_queue_per_name"),
        )

    def __str__(self) -> str:
        return self.name


class Gate(Namespaced):
    """Locked while runs pass through it, so that counting and claiming are one step."""

    name = models.CharField(max_length=300)
    # Not used any more; nodes of the version before `starts` read it while that is rolled out.
    free_at = models.DateTimeField(null=True)
    # Under a rate limit: the starts that still count; see `jobs.limits.Allowance`.
    starts = models.JSONField(null=True)

    objects = NamespacedManager["Gate"]()

    class Meta:
        verbose_name = _("gate")
        verbose_name_plural = _("gates")
        constraints = (
            models.UniqueConstraint(fields=("namespace", "name"), name="one_gate_per_name"),
        )

    def __str__(self) -> str:
        return self.name
