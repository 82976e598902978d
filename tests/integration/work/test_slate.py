"""What a child that has died had in hand, as its slate tells."""

from __future__ import annotations

import datetime as dt
import os
import socket
import tempfile
import uuid
from collections.abc import Iterator

import pytest

from sync_scheduler.processes.handle import ChildHandle
from sync_scheduler.processes.pace import Pace
from sync_scheduler.processes.slate import Slate
from sync_scheduler.store.claims import Claim

NOW = dt.datetime(2026, 11, 18, tzinfo=dt.UTC)


def claim() -> Claim:
    return Claim(
        id=uuid.uuid4(), job="tests.noop", input={}, attempt=1, token=1, crashes=0, suspect=False,
        max_attempts=1, timeout_seconds=None, slot=None, trigger="submit", schedule_id=None,
        schedule_name="", guard=None, gate=None, depth=0, queue="default", priority=0, run_at=NOW,
        started_at=NOW,
    )  # fmt: skip


@pytest.fixture(name="slate")
def _slate() -> Iterator[Slate]:
    slate, descriptor = Slate.new(threads=2)
    os.close(descriptor)
    yield slate
    slate.close()


@pytest.fixture(name="child")
def _child(slate: Slate) -> Iterator[ChildHandle]:
    pairs = [socket.socketpair() for _ in range(2)]
    yield ChildHandle(0, pairs[0][0], pairs[1][0], slate, threads=2, async_slots=1)
    for pair in pairs:
        for sock in pair:
            sock.close()


def give(child: ChildHandle, count: int) -> list[str]:
    return [child.reserve(claim(), Pace()).run for _ in range(count)]


def story(child: ChildHandle) -> tuple[list[str], list[str], list[str]]:
    """What had begun, what had ended unheard, what had waited."""
    child.read_slate()
    begun = child.begun()
    return (
        [held.run for held in begun if not held.is_unheard],
        [held.run for held in begun if held.is_unheard],
        [held.run for held in child.waiting()],
    )


def test_nobody_runs_beside_a_suspect(child: ChildHandle) -> None:
    # B9, W14: whoever shared a process with it would go down with it
    suspect = claim()._replace(suspect=True)
    assert child.accepts(suspect, Pace())
    child.reserve(suspect, Pace())
    assert not child.accepts(claim(), Pace())
    assert child.room(Pace()) == 0


def test_a_suspect_does_not_join_others(child: ChildHandle) -> None:
    # B9, W14
    give(child, 1)
    assert not child.accepts(claim()._replace(suspect=True), Pace())
    assert child.accepts(claim(), Pace())


def test_the_slate_is_read_by_another_process(slate: Slate) -> None:
    # B9
    other, descriptor = Slate.new(threads=1)
    pid = os.fork()
    if pid == 0:
        Slate.of(descriptor).take(0, "ab" * 16)
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(descriptor)
    assert other.in_hand() == {"ab" * 16}
    assert other.last_taken() == "ab" * 16
    other.close()


def test_what_began_what_ended_unheard_and_what_waited_are_told_apart(
    child: ChildHandle, slate: Slate
) -> None:
    # B9, W13
    first, second, third, fourth, fifth = give(child, 5)
    slate.take(0, first)
    slate.take(1, second)
    slate.put_down(0)
    slate.take(0, third)
    slate.put_down(0)
    slate.take(0, fourth)
    assert story(child) == ([second, fourth], [first, third], [fifth])


def test_nothing_has_begun_in_a_child_that_died_at_once(child: ChildHandle) -> None:
    # W13: whoever only waited is neither charged nor suspected
    runs = give(child, 3)
    assert story(child) == ([], [], runs)


def test_a_report_of_a_later_run_shows_that_the_earlier_ones_were_taken(
    child: ChildHandle, slate: Slate
) -> None:
    # B9
    first, second, third = give(child, 3)
    slate.take(0, first)
    slate.take(1, second)
    slate.put_down(1)
    child.finish(second, 1)
    slate.put_down(0)
    assert story(child) == ([], [first], [third])


def test_what_was_taken_back_says_nothing_about_the_others(
    child: ChildHandle, slate: Slate
) -> None:
    # B9
    first, second, third = give(child, 3)
    slate.take(0, first)
    child.take_back(third)
    assert story(child) == ([first], [], [second])


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the system has no such memory")
def test_a_slate_needs_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # W13: a container may have nothing to write on, and what is written to a full disk kills
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    slate, descriptor = Slate.new(threads=1)
    os.close(descriptor)
    slate.take(0, "ab" * 16)
    assert slate.in_hand() == {"ab" * 16}
    slate.close()
