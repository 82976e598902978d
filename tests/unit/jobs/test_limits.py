"""How many starts a rate limit leaves over."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sync_scheduler.jobs.limits import Allowance, parse_rate

BEGIN = dt.datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=dt.UTC)


def after(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


@given(
    rate=st.sampled_from(["1/s", "3/s", "10/m", "60/m", "61/m", "250/m"]),
    # In parts of the period: how long nobody asked, and for how many starts then.
    asked=st.lists(st.tuples(st.floats(0, 0.7), st.integers(1, 150)), max_size=25),
)
def test_no_span_of_a_period_holds_more_starts_than_the_limit(
    rate: str, asked: list[tuple[float, int]]
) -> None:
    # B15
    limit, now = parse_rate(rate), 0.0
    kept: list[tuple[int, int]] = []
    started: list[dt.datetime] = []
    for pause, number in asked:
        now += pause * limit.seconds
        allowance = Allowance(limit, kept, after(now))
        started += [after(now) for _ in range(number) if allowance.take()]
        kept = allowance.starts
        assert len(kept) <= 61
    period = dt.timedelta(seconds=limit.seconds)
    for first in started:
        assert sum(first <= one < first + period for one in started) <= limit.count


def test_the_whole_allowance_may_be_used_at_once_and_comes_back_after_a_period() -> None:
    # B15
    first = Allowance(parse_rate("10/m"), [], after(0))
    assert [first.take() for _ in range(11)] == [True] * 10 + [False]
    assert first.next_start() == after(60)
    assert not Allowance(parse_rate("10/m"), first.starts, after(59.999_999)).take()
    assert Allowance(parse_rate("10/m"), first.starts, after(60)).take()


@pytest.mark.parametrize("rate", ["2/m", "100/m"])
def test_those_that_wait_start_as_the_allowance_comes_back(rate: str) -> None:
    # B15: each of them really may at the time that it was given
    limit = parse_rate(rate)
    allowance = Allowance(limit, [], after(0))
    while allowance.take():
        pass
    kept = allowance.starts
    for start in [allowance.next_start() for _ in range(3 * limit.count)]:
        then = Allowance(limit, kept, start)
        assert then.take()
        kept = then.starts


def test_a_limit_that_was_lowered_holds_at_once() -> None:
    # B15
    before = Allowance(parse_rate("5/m"), [], after(0))
    assert all(before.take() for _ in range(4))
    later = Allowance(parse_rate("5/m"), before.starts, after(30))
    assert later.take()
    lowered = Allowance(parse_rate("1/m"), later.starts, after(40))
    assert not lowered.take()
    assert lowered.next_start() == after(90)
    assert lowered.next_start() == after(150)


def test_a_clock_that_was_set_back_gives_nothing_away() -> None:
    # B15
    before = Allowance(parse_rate("2/m"), [], after(0))
    assert before.take()
    back = Allowance(parse_rate("2/m"), before.starts, after(-20))
    assert [back.take(), back.take()] == [True, False]
    assert back.next_start() == after(60)
