"""Figures beside figures: medians, ratios, the table, and which targets were missed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.catalogue import Keeper, Peer

TIMES_THE_FASTEST = 2.0
TIMES_THE_DATABASE = 10.0
# Floors further apart than this mean that the machine did not give everyone the same.
UNEVEN = 1.5

HEADINGS = (
    *("", "outcome kept in", "jobs/s", "ours is", "submits/s", "ours is"),
    *("p50 ms", "ours is", "p99 ms", "jobs", "waits", "floor"),
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one peer; waits are None where its workers were never idle."""

    name: str
    title: str
    keeps: Keeper
    is_ours: bool
    throughput: float
    submit: float
    p50: float | None
    p99: float | None
    jobs: int
    waits: int
    floor: float  # bare single commits per second, taken beside this measurement


def figures(peer: Peer, found: Mapping[str, Any]) -> Figures:
    """From what the driver wrote."""
    waits = found["waits_ms"]
    return Figures(
        name=peer.name,
        title=peer.title,
        keeps=peer.keeps,
        is_ours=peer.is_ours,
        throughput=found["throughput"],
        submit=found["submit"],
        p50=ranked(waits, 50),
        p99=ranked(waits, 99),
        jobs=found["jobs"],
        waits=len(waits),
        floor=found["floor"],
    )


def ranked(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent of all do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def median(measured: Sequence[Figures]) -> Figures:
    """One row for several measurements of the same peer."""
    first = measured[0]

    def middle(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Figures(
        name=first.name,
        title=first.title,
        keeps=first.keeps,
        is_ours=first.is_ours,
        throughput=statistics.median(each.throughput for each in measured),
        submit=statistics.median(each.submit for each in measured),
        p50=middle([each.p50 for each in measured]),
        p99=middle([each.p99 for each in measured]),
        jobs=first.jobs,
        waits=first.waits,
        floor=statistics.median(each.floor for each in measured),
    )


def table(ours: Figures, others: Sequence[Figures]) -> str:
    """Fastest first; how many times as fast ours is stands beside each figure."""
    ordered = sorted(others, key=lambda each: each.throughput, reverse=True)
    lines = [list(HEADINGS), *(_cells(ours, each) for each in (ours, *ordered))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    rule = [
        "-" * width if column < 2 else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(_padded(line, widths))} |" for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _cells(ours: Figures, other: Figures) -> list[str]:
    return [
        other.title,
        other.keeps,
        f"{other.throughput:,.0f}",
        times(ours.throughput, other.throughput, ours is other),
        f"{other.submit:,.0f}",
        times(ours.submit, other.submit, ours is other),
        _milliseconds(other.p50),
        times(other.p50, ours.p50, ours is other),
        _milliseconds(other.p99),
        f"{other.jobs:,}",
        f"{other.waits:,}",
        f"{other.floor:,.0f}",
    ]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def times(value: float | None, other: float | None, is_same: bool = False) -> str:
    """How many times the other the value is; the larger it is, the better for us."""
    if is_same or value is None or not other:
        return ""
    return f"{value / other:,.1f}x"


def missed(ours: Figures, others: Sequence[Figures]) -> list[str]:
    """A sentence for every target of throughput that was not reached."""
    rivals = [each for each in others if not each.is_ours]
    sentences = []
    if rivals:
        fastest = max(rivals, key=lambda each: each.throughput)
        sentences += _short(ours, fastest, TIMES_THE_FASTEST, "the fastest")
    for each in rivals:
        if each.keeps == "database":
            sentences += _short(ours, each, TIMES_THE_DATABASE, "keeps outcomes in the database")
    return sentences


def _short(ours: Figures, other: Figures, wanted: float, why: str) -> list[str]:
    ratio = ours.throughput / other.throughput
    if ratio >= wanted:
        return []
    return [f"{ratio:.2f} times {other.title} ({why}), wanted {wanted:g}"]


def disturbed(ours: Figures, others: Sequence[Figures]) -> list[str]:
    """A sentence for every figure that was taken on a much faster or slower machine than ours."""
    return [
        f"{each.title}: floor {each.floor:,.0f} beside {ours.floor:,.0f} for ours; "
        "the machine was not quiet, and the ratio says little"
        for each in others
        if max(each.floor, ours.floor) > UNEVEN * min(each.floor, ours.floor)
    ]
