"""Ids: UUIDs of version 7, so that rows made later sort later (and land together in an index)."""

from __future__ import annotations

import hashlib
import os
import uuid

from sync_scheduler import clock

_CHANCE = (1 << 62) - 1
_MARKS = (0x7 << 76) | (0b10 << 62)


def uuid7() -> uuid.UUID:
    """A new id: 48 bits of milliseconds, 12 of their fraction, 62 of chance."""
    return _at(_ticks(), int.from_bytes(os.urandom(8)))


def uuid7_many(count: int) -> list[uuid.UUID]:
    """New ids in ascending order, each a quarter of a microsecond after the one before."""
    first, chance = _ticks(), os.urandom(8 * count)
    return [
        _at(first + number, int.from_bytes(chance[8 * number : 8 * number + 8]))
        for number in range(count)
    ]


def _ticks() -> int:
    """Since 1970, in parts of a millisecond of which there are 2^12."""
    return (clock.unix_nanoseconds() << 12) // 1_000_000


def _at(ticks: int, chance: int) -> uuid.UUID:
    milliseconds, fraction = ticks >> 12, ticks & 0xFFF
    return uuid.UUID(int=(milliseconds << 80) | (fraction << 64) | _MARKS | (chance & _CHANCE))


def fingerprint(namespace: str, key: str) -> uuid.UUID:
    """What makes a key unique: equal for equal keys only, whatever a database's collation."""
    digest = hashlib.sha256(f"{namespace}\0{key}".encode()).digest()
    # With the bits that mark a UUID of names: MariaDB's own type refuses what has none.
    return uuid.UUID(bytes=digest[:16], version=5)
