"""The states of a Run: which may follow which, all of them."""

from __future__ import annotations

from itertools import product

import pytest

from sync_scheduler import lifecycle
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run

MOVES = {
    ("submitted", "running"),
    ("submitted", "cancelled"),
    ("submitted", "failed"),
    ("running", "submitted"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "timed_out"),
}


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_a_state_follows_another_only_where_the_picture_says_so(
    before: State, after: State
) -> None:
    # B2
    assert lifecycle.may_follow(before, after) == ((before.value, after.value) in MOVES)


def test_terminal_is_terminal() -> None:
    # B2
    assert {s.value for s in lifecycle.TERMINAL} == {
        "completed",
        "failed",
        "cancelled",
        "timed_out",
        "skipped",
    }
    assert all(not lifecycle.ALLOWED[state] for state in lifecycle.TERMINAL)
    assert frozenset(State) == lifecycle.TERMINAL | lifecycle.ACTIVE


def test_the_model_has_the_same_words() -> None:
    # B2
    assert set(Run.Status.values) == {state.value for state in State}


def test_every_reason_has_its_sentence() -> None:
    # A15
    assert set(lifecycle.SENTENCES) == set(lifecycle.Reason)
    assert lifecycle.sentence("overlap") == "The previous run was still active."
    assert lifecycle.sentence("by hand") == "by hand"
