"""The section of the documentation that holds the figures, written from a run and never by hand.

python -m benchmarks.peers.report [RUN.json] [PAGE.md]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import OURS, PEERS, Peer
from benchmarks.peers.comparison import Figures, disturbed, figures, median, missed, table
from benchmarks.peers.environment import CACHE, CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "benchmarks.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
EVERYONE = {peer.name: peer for peer in (OURS, *PEERS)}


def rows(run: Mapping[str, Any]) -> tuple[Figures | None, list[Figures]]:
    """Ours and the others, one row each; ours is None if it could not be measured."""
    measured: dict[str, list[Figures]] = {}
    for found in run["measurements"]:
        peer = EVERYONE[found["peer"]]
        measured.setdefault(peer.name, []).append(figures(peer, found))
    middle = {name: median(each) for name, each in measured.items()}
    return middle.pop(OURS.name, None), list(middle.values())


def verdict(run: Mapping[str, Any]) -> list[str]:
    """A line for each peer that is absent and each target that was missed."""
    ours, others = rows(run)
    names = {each.name for each in others} | ({OURS.name} if ours else set())
    lines = [
        f"{'Failed once' if name in names else 'Not measured'}: {name}: {why}"
        for name, why in run["not_measured"].items()
    ]
    faults = missed(ours, others) if ours else ["ours could not be measured"]
    lines += [f"DISTURBED: {line}" for line in (disturbed(ours, others) if ours else [])]
    return [*lines, *(f"MISSED: {fault}" for fault in faults)]


def has_missed(run: Mapping[str, Any]) -> bool:
    return any(line.startswith("MISSED") for line in verdict(run))


def plain(run: Mapping[str, Any]) -> str:
    """The table and the verdict, for the one who ran it."""
    ours, others = rows(run)
    shown = [table(ours, others), ""] if ours else []
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run["versions"].items()))
    return "\n".join([*shown, versions, *(verdict(run) or ["All targets met."])])


def section(run: Mapping[str, Any]) -> str:
    """The same for the documentation, with date, machine and how each was set up."""
    ours, others = rows(run)
    if ours is None:
        raise ValueError("ours was not measured in this run")
    machine, floor = run["machine"], run["floor"][0]
    return "\n\n".join(
        [
            f"Measured on {run['date'][:10]} (commit {run['commit']}) on {machine['cores']} cores "
            f"of {machine['processor']}, {machine['memory_gb']} GB, {machine['system']}, with "
            f"PostgreSQL {machine['postgresql']}, Redis {machine['redis']} and Python "
            f"{machine['python']}; bare single commits: {floor['commits_per_second']:,.0f}/s; "
            f"a bare round trip to Redis: {floor['redis_round_trip_us']:,.0f} us.",
            table(ours, others),
            "Each was set up like this:",
            _setups(run),
            _list(verdict(run) or ["All targets were met."]),
        ]
    )


def _setups(run: Mapping[str, Any]) -> str:
    measured = {found["peer"]: found for found in run["measurements"]}
    lines = ["| | Versions | Set up as |", "|---|---|---|"]
    for name, found in measured.items():
        peer: Peer = EVERYONE[name]
        versions = [f"{each} {version}" for each, version in found["versions"].items()]
        lines.append(f"| {peer.title} | {_listed(versions, found['python'])} | {peer.setup} |")
    return "\n".join(lines)


def _listed(versions: Sequence[str], python: str) -> str:
    return ", ".join([*versions, f"Python {python}"])


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def written(page: str, text: str) -> str:
    """The page with the text between its two marks."""
    head, _, rest = page.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN} and {END} after it")
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def main(arguments: list[str]) -> int:
    given = [Path(name) for name in arguments]
    source = given[0] if given else CACHE / "peers.json"
    page = given[1] if len(given) > 1 else PAGE
    page.write_text(written(page.read_text(), section(json.loads(source.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
