"""Clock, signals, ids, the wire between processes, and the pace of jobs."""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
import uuid
from typing import Any

import pytest
from django.dispatch import Signal

from sync_scheduler import clock, signals
from sync_scheduler.jobs.control import Retry
from sync_scheduler.models.identity import fingerprint, uuid7
from sync_scheduler.processes.pace import Pace
from sync_scheduler.work import execute
from sync_scheduler.work.wire import Order, Reader, Report, frame, note

ORDER = Order("0" * 32, "tests.noop", {"a": "ä\n"}, 1, 7, "submit", None, 0, "node")


def test_the_clock_is_aware_and_can_be_moved() -> None:
    # A13
    before = clock.now()
    assert before.tzinfo is dt.UTC
    with clock.shifted(dt.timedelta(days=400)):
        with clock.shifted(dt.timedelta(days=1)):
            assert clock.now() - before >= dt.timedelta(days=401)
        assert dt.timedelta(days=400) <= clock.now() - before < dt.timedelta(days=401)
    assert clock.now() - before < dt.timedelta(days=1)


def test_the_clock_is_put_right_even_after_an_error() -> None:
    # A13
    before = clock.now()
    with pytest.raises(RuntimeError), clock.shifted(dt.timedelta(days=400)):
        raise RuntimeError
    assert clock.now() - before < dt.timedelta(days=1)


def test_a_receiver_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A9
    signal, heard = Signal(), []

    def broken(**facts: Any) -> None:
        raise RuntimeError("receiver")

    def sound(**facts: Any) -> None:
        heard.append(facts["run_id"])

    signal.connect(broken)
    signal.connect(sound)
    with caplog.at_level(logging.ERROR, "sync_scheduler.signals"):
        signals.notify(signal, object, run_id=5)
    assert heard == [5]
    assert "broken" in caplog.text


def test_ids_sort_by_the_time_of_their_making_and_never_repeat() -> None:
    # B1
    made = []
    for _ in range(200):
        made.append(uuid7())
        time.sleep(0.00001)
    assert made == sorted(made)
    assert len(set(made)) == 200
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {uuid.RFC_4122}
    milliseconds = made[0].int >> 80
    assert abs(milliseconds / 1000 - time.time()) < 60


def test_fingerprints_differ_where_a_database_might_see_none() -> None:
    # B5
    keys = ["a", "A", "a ", "á", "a\u0301", "", "aa"]
    prints = {fingerprint("default", key) for key in keys} | {fingerprint("other", "a")}
    assert len(prints) == len(keys) + 1
    assert fingerprint("default", "a") == fingerprint("default", "a")


def test_messages_survive_being_cut_anywhere() -> None:
    # B1
    report = Report("0" * 32, 7, "done", 1.5, 2.5, {"a": "ä\n"}, "e", "t", None)
    stream = frame([ORDER.message, report.message]) + frame([note("recall", ["a", "b"])])
    stream += frame([note("quit")])
    chance = random.Random(1)
    for _ in range(50):
        reader, found, rest = Reader(), [], stream
        while rest:
            size = chance.randint(1, 40)
            found += reader.feed(rest[:size])
            rest = rest[size:]
        assert [message[0] for message in found] == ["run", "end", "recall", "quit"]
        assert Order(*found[0][1:]) == ORDER
        assert Report(*found[1][1:]) == report


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (None, None),
        (5, 5.0),
        (-5, 0.0),
        (dt.timedelta(minutes=1), 60.0),
        (float("nan"), None),
        (float("inf"), None),
        ("soon", None),
        (1e300, 366 * 86_400.0),
    ],
)
def test_a_retry_waits_as_long_as_makes_sense(delay: Any, seconds: float | None) -> None:
    # B6
    report = execute.outcome_of(ORDER, 0.0, Retry(delay=delay))
    assert (report.kind, report.delay) == ("retry", seconds)
    assert frame([report.message])


def test_look_ahead_is_bounded_by_time() -> None:
    # B15
    pace = Pace()
    assert pace.ahead(0.0) == 0
    assert not pace.fits_ahead("unknown", 0.0)
    for _ in range(100):
        pace.learn("tiny", 0.0005)
    assert pace.fits_ahead("tiny", 0.0)
    assert 50 < pace.ahead(0.0) <= 100
    assert pace.ahead(0.05) == 0
    assert not pace.fits_ahead("tiny", 0.05)
    for _ in range(100):
        pace.learn("slow", 2.0)
    assert not pace.fits_ahead("slow", 0.0)
    assert pace.ahead(0.0) == 0
