"""What `doctor` finds around the scheduler: settings, Redis, migrations, SQLite, the clock."""

from __future__ import annotations

from collections.abc import Iterator

from sync_scheduler import checks, clock, conf
from sync_scheduler.coordination import probe
from sync_scheduler.errors import ServiceUnavailable
from sync_scheduler.jobs import codec
from sync_scheduler.management.actions.finding import LARGEST_OFFSET_SECONDS, Finding
from sync_scheduler.store.locking import database_now
from sync_scheduler.store.reports import sqlite as sqlite_facts

_SLOW_REDIS_SHARE = 0.2


def settings() -> list[Finding]:
    faults = conf.faults() or codec.faults()
    if not faults:
        return [Finding(level="ok", check="settings", message="All values can be used.")]
    hint = "See the page on settings in the documentation."
    return [Finding(level="error", check="settings", message=one, hint=hint) for one in faults]


def redis() -> list[Finding]:
    if not conf.get().uses_redis:
        message = "Not configured: the database does everything (embedded mode)."
        return [Finding(level="ok", check="redis", message=message)]
    try:
        facts = probe.probe()
    except ServiceUnavailable as error:
        hint = "Without Redis nodes do not start; running ones go on through the database."
        return [Finding(level="error", check="redis", message=str(error), hint=hint)]
    milliseconds = facts.latency_seconds * 1000
    found = [
        Finding(
            level="ok",
            check="redis",
            message=f"{facts.url}, version {facts.version}, answers in {milliseconds:.1f} ms.",
        )
    ]
    if facts.evicts:
        found.append(
            Finding(
                level="warning",
                check="redis",
                message=f"maxmemory-policy is {facts.policy}: a full Redis drops leases and queues,"
                " which costs time (nothing is lost).",
                hint="Set maxmemory-policy noeviction.",
            )
        )
    if facts.latency_seconds > conf.get().REDIS_TIMEOUT * _SLOW_REDIS_SHARE:
        found.append(
            Finding(
                level="warning",
                check="redis",
                message=f"It takes {milliseconds:.0f} ms to answer.",
                hint="Bring it closer, or raise REDIS_TIMEOUT.",
            )
        )
    return found


def migrations() -> list[Finding]:
    faults = [fault for fault in checks.start_up_faults() if fault.id == checks.E002]
    if not faults:
        return [Finding(level="ok", check="migrations", message="All are applied.")]
    return [
        Finding(level="error", check="migrations", message=fault.msg, hint=fault.hint or "")
        for fault in faults
    ]


def sqlite() -> Iterator[Finding]:
    facts = sqlite_facts.facts()
    if facts is None:
        return
    wrong = []
    if not facts.is_immediate:
        wrong.append('"transaction_mode": "IMMEDIATE"')
    if facts.busy_seconds < 5:
        wrong.append('"timeout": 20')
    if facts.journal_mode not in {"wal", "memory"}:
        wrong.append('"init_command": "PRAGMA journal_mode=WAL;"')
    if wrong:
        yield Finding(
            level="warning",
            check="sqlite",
            message="Several processes will meet 'database is locked'.",
            hint=f'Add to "OPTIONS" of the database: {", ".join(wrong)}.',
        )
    else:
        yield Finding(level="ok", check="sqlite", message="Set up for several processes.")


def machine_clock() -> Iterator[Finding]:
    asked = clock.now()
    answer, received = database_now(), clock.now()
    # Whatever lies inside the round trip is explained by it.
    off = max((asked - answer).total_seconds(), (answer - received).total_seconds(), 0.0)
    if off > LARGEST_OFFSET_SECONDS:
        yield Finding(
            level="error",
            check="clock",
            message=f"This machine's clock is {off:.1f} s off the database's; it will not lead.",
            hint="Let both keep time by NTP.",
        )
    else:
        yield Finding(level="ok", check="clock", message=f"{off:.3f} s off the database's.")
