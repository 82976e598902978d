"""Aligned plain text. What comes from rows is made printable: one row stays one line."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "
_LONGEST = 100


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(headers), *cells]) for i in range(len(headers))]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        for i in range(len(headers))
    ]
    lines = []
    for line in [[header.upper() for header in headers], *cells]:
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return "\n".join(lines)


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """Names and values, one pair a line; pairs without a value are left out."""
    shown = [(name, printable(str(value))) for name, value in pairs if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in shown)


def printable(text: str) -> str:
    """The text on one line, with everything that a terminal would act upon written out."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def first_line(text: str, longest: int = _LONGEST) -> str:
    """The beginning of a text, cut to fit into a table."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
