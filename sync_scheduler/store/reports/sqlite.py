"""How a SQLite database is set up; it decides whether several processes get along."""

from __future__ import annotations

import dataclasses

from sync_scheduler.store.locking import connection


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFacts:
    journal_mode: str
    busy_seconds: float
    is_immediate: bool


def facts() -> SqliteFacts | None:
    """None: another database."""
    used = connection()
    if used.vendor != "sqlite":
        return None
    with used.cursor() as cursor:
        journal = cursor.execute("PRAGMA journal_mode").fetchone()[0]
        busy = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
    options = used.settings_dict.get("OPTIONS", {})
    return SqliteFacts(
        journal_mode=str(journal).lower(),
        busy_seconds=int(busy) / 1000,
        is_immediate=options.get("transaction_mode") == "IMMEDIATE",
    )
