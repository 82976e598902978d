"""What really ran: the append-only file in which handlers note their starts and ends.

A line is `start <label> <run> <attempt> [<pid> <time>]`, or `end ...`; anything else in the file is
a test's own business. Rows may be lost, repeated or pruned; these lines are not.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

_LINE = re.compile(
    r"(?P<kind>start|end|cancelled) (?P<label>\S+) (?P<run>[0-9a-f-]{36}) (?P<attempt>\d+)"
    r"(?: (?P<pid>\d+) (?P<at>[\d.]+))?"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    kind: str
    label: str
    run: str
    attempt: int
    pid: int | None
    at: float | None


def read(path: Path) -> list[Entry]:
    if not path.exists():
        return []
    found = (_LINE.match(line) for line in path.read_text().splitlines())
    return [
        Entry(
            kind=match["kind"],
            label=match["label"],
            run=match["run"],
            attempt=int(match["attempt"]),
            pid=None if match["pid"] is None else int(match["pid"]),
            at=None if match["at"] is None else float(match["at"]),
        )
        for match in found
        if match is not None
    ]


def starts(path: Path) -> Counter[str]:
    """How often a handler was really entered, by Run id."""
    return Counter(entry.run for entry in read(path) if entry.kind == "start")
