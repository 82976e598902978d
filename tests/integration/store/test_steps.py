"""Results of steps are found again by the very name they were stored under."""

from __future__ import annotations

import pytest

from sync_scheduler.models import Step
from sync_scheduler.store import steps
from tests.integration.store.runs import make

pytestmark = pytest.mark.django_db(transaction=True)


def test_names_that_differ_only_in_case_or_accents_are_steps_of_their_own() -> None:
    # B4: on MySQL the second of them was not done, and got the result of the first
    run = make("running", token=1)
    names = ["mail b", "mail B", "mail b ", "mail á", "x" * 200, "X" * 200]
    for value, name in enumerate(names):
        assert steps.recall(run.id, name) == (False, None)
        steps.remember(run.id, name, value, attempt=1, token=1)
    assert [steps.recall(run.id, name) for name in names] == [(True, n) for n in range(6)]


def test_a_step_keeps_the_result_that_was_stored_first() -> None:
    # B4, B9
    run = make("running", token=1)
    for value in (1, 2):
        steps.remember(run.id, "Charge", value, attempt=1, token=1)
    assert steps.recall(run.id, "Charge") == (True, 1)
    assert [step.name for step in Step.objects.filter(run=run)] == ["Charge"]
