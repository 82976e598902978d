"""Ids: UUIDs of version 7, so that rows made later sort later (and land together in an index)."""

from __future__ import annotations

import hashlib
import os
import uuid

from sync_scheduler import clock


def uuid7() -> uuid.UUID:
    """A new id: 48 bits of milliseconds, 12 of their fraction, 62 of chance."""
    milliseconds, rest = divmod(clock.unix_nanoseconds(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    chance = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    return uuid.UUID(
        int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | chance
    )


def fingerprint(namespace: str, key: str) -> uuid.UUID:
    """What makes a key unique: equal for equal keys only, whatever a database's collation."""
    digest = hashlib.sha256(f"{namespace}\0{key}".encode()).digest()
    # With the bits that mark a UUID of names: MariaDB's own type refuses what has none.
    return uuid.UUID(bytes=digest[:16], version=5)
