"""The states of a Run, and which may follow which.

    submitted --claim--> running --complete--> completed
        ^                   |------fail-------> failed
        |                   |------time out---> timed_out
        |---retry/give back-|------cancel-----> cancelled   (also from submitted)
    skipped: born terminal; a slot that a policy ruled out

Every write in `store` names the state that it expects; this table is what the tests hold
those writes against.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    SUBMITTED = "submitted"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"


class Trigger(StrEnum):
    """What a Run was born from."""

    SLOT = "slot"
    MANUAL = "manual"
    SUBMIT = "submit"
    BACKFILL = "backfill"
    RETRY = "retry"


ACTIVE = frozenset({State.SUBMITTED, State.RUNNING})
TERMINAL = frozenset(State) - ACTIVE
FAILURES = frozenset({State.FAILED, State.TIMED_OUT})

ALLOWED: dict[State, frozenset[State]] = {
    State.SUBMITTED: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset(
        {State.SUBMITTED, State.COMPLETED, State.FAILED, State.CANCELLED, State.TIMED_OUT}
    ),
    **{state: frozenset() for state in TERMINAL},
}


def may_follow(before: str, after: str) -> bool:
    return State(after) in ALLOWED[State(before)]


class Reason(StrEnum):
    """Why a slot did not run, or a Run ended as it did: a closed list of machine words."""

    OVERLAP = "overlap"
    QUEUE_FULL = "queue_full"
    MISFIRE = "misfire"
    CATCH_UP_LIMIT = "catch_up_limit"
    PAUSED = "paused"
    CHANGED = "changed"
    UNKNOWN_JOB = "unknown_job"
    DISPATCH_FAILED = "dispatch_failed"
    CRASHED = "crashed"
    NODE_LOST = "node_lost"
    TIMED_OUT = "timed_out"
    ORPHANED = "orphaned"
    CHAIN_TOO_DEEP = "chain_too_deep"


SENTENCES: dict[str, str] = {
    Reason.OVERLAP: "The previous run was still active.",
    Reason.QUEUE_FULL: "Another run was already waiting behind the active one.",
    Reason.MISFIRE: "Missed: nothing dispatched at that time, and catching up is off.",
    Reason.CATCH_UP_LIMIT: "Missed, and older than the catch-up limit.",
    Reason.PAUSED: "The schedule was paused.",
    Reason.CHANGED: "The schedule was changed or disabled before this slot was dispatched.",
    Reason.UNKNOWN_JOB: "No job of this name is registered.",
    Reason.DISPATCH_FAILED: "Dispatching failed too often; the slot was passed over.",
    Reason.CRASHED: "The worker process died while it ran this, too often.",
    Reason.NODE_LOST: "The node that ran this stopped reporting.",
    Reason.TIMED_OUT: "It ran longer than its timeout.",
    Reason.ORPHANED: "It was older than its timeout and nobody was running it.",
    Reason.CHAIN_TOO_DEEP: "Runs kept submitting further runs; the chain was cut.",
}


def sentence(reason: str) -> str:
    """The reason in words for people; free text is returned as it is."""
    return SENTENCES.get(reason, reason)
