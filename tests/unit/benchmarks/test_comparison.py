"""What the comparison with others makes of figures. Nothing here says how fast anything is."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.peers.catalogue import OURS, PEERS, Keeper, chosen
from benchmarks.peers.comparison import Figures, disturbed, median, missed, ranked, table, times
from benchmarks.peers.environment import reason
from benchmarks.peers.report import BEGIN, END, verdict, written


def figures(
    name: str, throughput: float, *, keeps: Keeper = "Redis", is_ours: bool = False
) -> Figures:
    return Figures(
        name=name,
        title=name,
        keeps=keeps,
        is_ours=is_ours,
        throughput=throughput,
        submit=100,
        p50=2.0,
        p99=None,
        jobs=2000,
        waits=100,
        floor=1000,
    )


OWN = figures("ours", 1000, keeps="database", is_ours=True)


def test_a_rival_that_is_too_near_is_named_with_the_reason() -> None:
    others = [figures("quick", 600), figures("rows", 101, keeps="database")]
    faults = missed(OWN, others)
    assert len(faults) == 2
    assert "1.67 times quick (the fastest), wanted 2" in faults
    assert "9.90 times rows (keeps outcomes in the database), wanted 10" in faults


def test_nothing_is_missed_at_exactly_the_wanted_ratio() -> None:
    assert not missed(OWN, [figures("quick", 500), figures("rows", 100, keeps="database")])


def test_ours_in_another_mode_is_no_rival() -> None:
    assert not missed(OWN, [figures("embedded", 900, keeps="database", is_ours=True)])


def test_figures_from_a_busier_machine_are_named() -> None:
    uneven = dataclasses.replace(figures("late", 10), floor=600)
    assert not disturbed(OWN, [figures("even", 10)])
    assert [line.partition(":")[0] for line in disturbed(OWN, [uneven])] == ["late"]


def test_the_table_begins_with_ours_and_goes_on_with_the_fastest() -> None:
    lines = table(OWN, [figures("slow", 10), figures("quick", 500)]).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["ours", "quick", "slow"]
    assert "2.0x" in lines[3]
    assert "100.0x" in lines[4]
    assert len({len(line) for line in lines}) == 1


def test_what_was_not_measured_has_no_ratio() -> None:
    assert times(1, None) == ""
    assert times(None, 1) == ""
    assert times(3, 2) == "1.5x"


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert ranked(values, 50) == 50
    assert ranked(values, 99) == 99
    assert ranked([7.0], 99) == 7
    assert ranked([], 50) is None


def test_rounds_are_compared_by_their_median() -> None:
    middle = median([figures("a", 1), figures("a", 9), figures("a", 4)])
    assert middle.throughput == 4
    assert middle.p99 is None


def test_peers_are_chosen_by_name_and_an_unknown_name_is_refused() -> None:
    assert chosen("") == PEERS
    assert [peer.name for peer in chosen("huey-thread, dramatiq")] == ["dramatiq", "huey-thread"]
    with pytest.raises(ValueError, match="no such peer: dramatic"):
        chosen("dramatic")


def test_every_peer_has_a_name_of_its_own() -> None:
    names = [peer.name for peer in (OURS, *PEERS)]
    assert len(set(names)) == len(names)


def test_the_reason_is_what_pip_called_an_error() -> None:
    said = "WARNING: a\nERROR: no version of x\nERROR: No matching distribution for x\nnotice: b\n"
    assert reason(said) == "No matching distribution for x"
    assert reason("Traceback\nKilled\n") == "Killed"


def test_a_run_without_ours_is_a_missed_target_and_says_who_is_absent() -> None:
    run = {"measurements": [], "not_measured": {"huey-thread": "no such package"}}
    assert verdict(run) == [
        "Not measured: huey-thread: no such package",
        "MISSED: ours could not be measured",
    ]


def test_the_page_changes_only_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert written(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="has no"):
        written("no marks", "new")
