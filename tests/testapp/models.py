"""What the test jobs leave behind."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One row per effect that a handler had in the database."""

    name = models.CharField(max_length=200)
    run = models.CharField(max_length=40, blank=True, default="")
    attempt = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class Counter(models.Model):
    name = models.CharField(max_length=100, unique=True)
    value = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.name
