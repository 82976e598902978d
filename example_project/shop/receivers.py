"""One line in the log for each Run, from the scheduler's signals."""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import receiver

from sync_scheduler.signals import run_finished, run_retried

logger = logging.getLogger(__name__)


@receiver(run_finished)
def log_the_end(*, job: str, status: str, attempt: int, **_: Any) -> None:
    level = logging.INFO if status == "completed" else logging.WARNING
    logger.log(level, "%s %s (attempt %d)", job, status, attempt)


@receiver(run_retried)
def log_the_retry(*, job: str, attempt: int, reason: str, **_: Any) -> None:
    logger.warning("%s tries again after attempt %d: %s", job, attempt, reason)
