"""What goes wrong inside a node: its clock is off, or its dispatch thread hangs."""

from __future__ import annotations

import datetime as dt
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.apps import AppConfig

from sync_scheduler import clock, signals

_for_ever = ExitStack()


class SaboteurConfig(AppConfig):
    name = "tests.faults.saboteur"
    label = "saboteur"

    def ready(self) -> None:
        set_clock(float(os.environ.get("SABOTEUR_CLOCK_OFFSET", "0")))
        signals.slot_dispatched.connect(hang, dispatch_uid="saboteur")


def set_clock(seconds: float) -> None:
    """As on a machine whose clock was set wrong before the process began."""
    _for_ever.enter_context(clock.shifted(dt.timedelta(seconds=seconds)))
    nanoseconds = int(seconds * 1e9)
    clock.unix_nanoseconds = lambda: time.time_ns() + nanoseconds


def hang(**facts: Any) -> None:
    """The thread that dispatches does not come back while the file is there."""
    path = os.environ.get("SABOTEUR_HANG_FILE")
    while path and Path(path).exists():
        time.sleep(0.05)
