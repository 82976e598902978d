"""The figures of a run of fault tests: each test adds its own, `make figures` prints one table.

They are collected only when `FAULTS_FIGURES` names a file; a line of JSON per test.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults.seed import SEED

COLUMNS = ("slots", "runs", "kills", "lost", "duplicated", "effects", "p50", "max", "note")


def add(
    number: str,
    *,
    slots: int | None = None,
    runs: int | None = None,
    kills: int | None = None,
    lost: int | None = None,
    duplicated: int | None = None,
    effects: int | None = None,
    takeovers: Sequence[float] = (),
    note: str = "",
) -> None:
    """What a test has measured. `number` is its name in the list of faults (`A1`).

    `takeovers` are the seconds from each blow until somebody else was at work.
    """
    line: dict[str, Any] = {
        "number": number,
        "slots": slots,
        "runs": runs,
        "kills": kills,
        "lost": lost,
        "duplicated": duplicated,
        "effects": effects,
        "p50": round(statistics.median(takeovers), 2) if takeovers else None,
        "max": round(max(takeovers), 2) if takeovers else None,
        "note": note,
        "seed": SEED,
    }
    print({name: value for name, value in line.items() if value not in (None, "")})  # noqa: T201
    if path := os.environ.get("FAULTS_FIGURES"):
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """As Markdown, so that it can be quoted; of each test its longest version."""
    longest: dict[str, dict[str, Any]] = {}
    for line in sorted(lines, key=lambda one: one["slots"] or one["runs"] or one["kills"] or 0):
        longest[str(line["number"])] = line
    lines = list(longest.values())
    head = ("test", *COLUMNS[:-3], "take-over p50 s", "take-over max s", "note")
    rows = [head, tuple("---" for _ in head)]
    for line in sorted(lines, key=lambda one: _order(str(one["number"]))):
        cells = (line["number"], *(line[name] for name in COLUMNS))
        rows.append(tuple("" if cell is None else str(cell) for cell in cells))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    seeds = sorted({str(line["seed"]) for line in lines})
    return "\n".join([*text, "", f"Seeds: {', '.join(seeds)}"])


def _order(number: str) -> tuple[int, str]:
    digits = "".join(c for c in number.split()[0] if c.isdigit())
    return int(digits or 0), number


def main(path: str) -> None:
    text = Path(path).read_text() if Path(path).exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    print(table(lines) if lines else "No figures: no test has added any.")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
