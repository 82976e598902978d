"""Schedules, leaders and workers at random, against a model of what is promised.

The rows, the statements and the decisions are the real ones; processes and Redis are not here.
MODEL_STEPS says how many steps to take (1,500, in CI 5,000), MODEL_SEED which ones. A failure
prints the shortest history that leads to it and how to repeat it.
"""

from __future__ import annotations

import logging
import os
import sys

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model import world
from tests.model.working import Working
from tests.services.plugin import in_ci

_STEPS_PER_EXAMPLE = 50
SETTINGS = {"RETENTION_DAYS": 0.002, "ORPHAN_GRACE": 30.0}


@pytest.mark.django_db
def test_no_history_breaks_a_promise(caplog: pytest.LogCaptureFixture) -> None:  # A1, A2, A7
    caplog.set_level(logging.CRITICAL, "sync_scheduler")
    wanted = int(os.environ.get("MODEL_STEPS", "5000" if in_ci() else "1500"))
    number = int(os.environ.get("MODEL_SEED", "20300107"))
    machine = seed(number)(type("Model", (Working,), {}))
    how = settings(
        max_examples=max(1, wanted // _STEPS_PER_EXAMPLE),
        stateful_step_count=_STEPS_PER_EXAMPLE,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate] + [Phase.shrink] * (os.environ.get("MODEL_SHRINK") != "0"),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        with override_settings(SYNC_SCHEDULER=SETTINGS):
            run_state_machine_as_test(machine, settings=how)
    except Exception as failure:
        failure.add_note(f"Repeat it with MODEL_SEED={number} MODEL_STEPS={wanted} make model")
        raise
    finally:
        sys.stdout.write("".join(f"{n:8d}  {what}\n" for what, n in sorted(world.seen.items())))
