"""Many rows in statements of a bearable length.

A server refuses a statement that is longer than it was told to take (MySQL and MariaDB:
`max_allowed_packet`, a few megabytes), and ends the connection, which looks like an outage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)

# Far below any server's limit: what is quoted or encoded takes several times as much.
_LONGEST_BYTES = 1_000_000
_ROW_BYTES = 500
_MOST_ROWS = 500


def portions(sizes: Sequence[int], most_rows: int = _MOST_ROWS) -> Iterator[slice]:
    """Cut rows whose texts have these sizes; one that is too long by itself goes by itself."""
    start = total = 0
    for place, size in enumerate(sizes):
        if place > start and (
            place - start >= most_rows or total + size + _ROW_BYTES > _LONGEST_BYTES
        ):
            yield slice(start, place)
            start, total = place, 0
        total += size + _ROW_BYTES
    if start < len(sizes):
        yield slice(start, len(sizes))


def create(query: QuerySet[M], rows: Sequence[M], sizes: Sequence[int]) -> None:
    """`bulk_create` of these rows, whose texts have these sizes."""
    for portion in portions(sizes):
        query.bulk_create(rows[portion])
