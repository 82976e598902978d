"""A long history made by the database itself: runs, attempts, events and dead letters in bulk.

Shared by what measures reading. The rows are those of a busy week: nearly all completed, some of
every other kind, a few that run or wait, and one schedule whose newest ten thousand slots were all
skipped, because that is where looking for "the last one that ran" takes longest.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

from django.db import connection

from sync_scheduler import clock
from sync_scheduler.models import Attempt, DeadLetter, Event, Leader, Node, Run, Schedule, Term
from sync_scheduler.timing.rules import Rule, cron, every, once

WEEK_MILLISECONDS = 7 * 24 * 3600 * 1000
CHUNK = 250_000
HOUR = dt.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The few expressions that databases spell differently."""

    series: Callable[[int, int], str]
    id_at: Callable[[str, str], str]
    moment: Callable[[str], str]
    text: Callable[[str, str], str]
    json: str = "'{}'"


DIALECTS = {
    "postgresql": Dialect(
        series=lambda first, last: f"(SELECT generate_series({first}::bigint, {last}) AS n) s",
        id_at=lambda ms, n: (
            f"(lpad(to_hex({ms}), 12, '0') || '70008000' || lpad(to_hex({n}), 12, '0'))::uuid"
        ),
        moment=lambda ms: f"to_timestamp(({ms}) / 1000.0)",
        text=lambda prefix, n: f"'{prefix}' || ({n})",
        json="'{}'::jsonb",
    ),
    "mysql": Dialect(
        series=lambda first, last: f"(SELECT seq AS n FROM seq_{first}_to_{last}) s",
        id_at=lambda ms, n: (
            f"CONCAT(LPAD(LOWER(HEX({ms})), 12, '0'), '70008000', LPAD(LOWER(HEX({n})), 12, '0'))"
        ),
        moment=lambda ms: f"('1970-01-01' + INTERVAL ({ms}) * 1000 MICROSECOND)",
        text=lambda prefix, n: f"CONCAT('{prefix}', {n})",
    ),
    "sqlite": Dialect(
        series=lambda first, last: (
            f"(WITH RECURSIVE c(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c"
            f" WHERE n < {last}) SELECT n FROM c) s"
        ),
        id_at=lambda ms, n: f"printf('%012x70008000%012x', {ms}, {n})",
        moment=lambda ms: f"strftime('%Y-%m-%d %H:%M:%f', ({ms}) / 1000.0, 'unixepoch') || '000'",
        text=lambda prefix, n: f"'{prefix}' || ({n})",
    ),
}

# By the last three digits of a row's number: what is left over has completed.
STATUS = (
    "CASE WHEN n > {active} AND n % 50 = 1 THEN 'running' WHEN n > {active} THEN 'submitted'"
    " WHEN n % 100 = 7 THEN 'skipped' WHEN n % 1000 < 10 THEN 'failed'"
    " WHEN n % 1000 < 12 THEN 'timed_out' WHEN n % 1000 < 15 THEN 'cancelled'"
    " WHEN n % 1000 < 30 THEN 'skipped' ELSE 'completed' END"
)
ACTIVE = 1_000


def fill(*, runs: int, schedules: int) -> None:
    """Everything, into an empty database."""
    now = clock.now()
    _schedules(schedules, now)
    _cluster(now)
    for first in range(1, runs + 1, CHUNK):
        _runs(first, min(first + CHUNK - 1, runs), runs, schedules, now)
    _attempts()
    _events()
    _letters()
    with connection.cursor() as cursor:
        for model in (Schedule, Run, Attempt, Event, DeadLetter):
            word = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
            cursor.execute(f"{word} {model._meta.db_table}")


def _rule(number: int, now: dt.datetime) -> Rule:
    zones = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
    zone = zones[number % len(zones)]
    kinds: tuple[Callable[[], Rule], ...] = (
        lambda: cron("* * * * *", tz=zone),
        lambda: cron("*/5 * * * *", tz=zone),
        lambda: cron(f"{number % 60} * * * *", tz=zone),
        lambda: cron(f"{number % 60} {number % 24} * * *", tz=zone),
        lambda: cron(f"{number % 60} 6 * * mon-fri", tz=zone),
        lambda: every(minutes=15),
        lambda: every(hours=6),
        lambda: cron(f"30 2 {1 + number % 28} * *", tz=zone),
        lambda: every(seconds=10),
        lambda: once(now + dt.timedelta(minutes=number)),
    )
    # The quickest kind is rare.
    kind = number % 10
    return kinds[3 if kind == 8 and number % 100 != 8 else kind]()


def _schedules(number: int, now: dt.datetime) -> None:
    for n in range(1, number + 1):
        job = ("tests.noop", "tests.add", "tests.echo", "gone.job")[n % 40 % 3 if n % 200 else 3]
        Schedule(
            id=n,
            name=f"schedule-{n:05}",
            job=job,
            input={"value": n, "secret": "hidden"} if job == "tests.echo" else {},
            **_columns(_rule(n, now)),
        ).save(force_insert=True)
    made = now - dt.timedelta(days=30)
    Schedule.objects.update(created_at=made, updated_at=made)
    Schedule.objects.filter(id__lte=30).update(paused_at=now, pause_note="resting")
    Schedule.objects.filter(id__gt=30, id__lte=50).update(enabled=False, next_run_at=None)
    Schedule.objects.filter(id__gt=50, id__lte=60).update(error="No job of this name.", failures=3)
    Schedule.objects.filter(id__gt=60, id__lte=70).update(next_run_at=now - HOUR)


def _columns(rule: Rule) -> dict[str, object]:
    return {
        "kind": rule.kind,
        "expression": rule.expression,
        "timezone": rule.timezone or "UTC",
        "anchor_at": rule.anchor,
    }


def _cluster(now: dt.datetime) -> None:
    for n in range(1, 9):
        Node.objects.create(
            name=f"node-{n}", host=f"web{n}", pid=n, roles="dispatch+work", version="0.1.0",
            jobs=["tests.noop", "tests.add", "tests.echo"], slots=8, running=2,
            started_at=now - HOUR, heartbeat_at=now + HOUR,
        )  # fmt: skip
    Leader.objects.update_or_create(
        namespace="default",
        defaults={"epoch": 9, "holder": "node-1", "since": now - HOUR, "expires_at": now + HOUR},
    )
    for epoch in range(1, 10):
        start = now - (10 - epoch) * HOUR
        ended = None if epoch == 9 else start + HOUR
        Term.objects.create(epoch=epoch, holder="node-1", started_at=start, ended_at=ended)


def _insert(table: str, values: dict[str, str], source: str) -> None:
    quote = connection.ops.quote_name
    names = ", ".join(quote(name) for name in values)
    with connection.cursor() as cursor:
        # None: percent signs are remainders here, not parameters.
        cursor.execute(
            f"INSERT INTO {quote(table)} ({names}) SELECT {', '.join(values.values())} {source}",
            None,
        )


def _runs(first: int, last: int, runs: int, schedules: int, now: dt.datetime) -> None:
    words = DIALECTS[connection.vendor]
    step = WEEK_MILLISECONDS // runs
    begin = int(now.timestamp() * 1000) - step * runs
    made = f"{begin} + n * {step}"
    status = STATUS.format(active=runs - ACTIVE)
    ended = f"n <= {runs - ACTIVE}"
    started = f"({status}) NOT IN ('submitted', 'skipped')"
    # A number without a schedule in five; a hundredth part belongs to the one that is stuck.
    schedule = (
        f"CASE WHEN n % 100 = 7 THEN 1 WHEN n % 5 <> 0 THEN 2 + n * 7919 % {schedules - 1} END"
    )

    def when(condition: str, value: str) -> str:
        return f"CASE WHEN {condition} THEN {value} END"

    inner = f"(SELECT n, {schedule} AS sid FROM {words.series(first, last)}) t"
    source = f"FROM {inner} LEFT JOIN sync_scheduler_schedule p ON p.id = t.sid"
    held = f"n > {runs - ACTIVE} AND n % 50 <> 1 AND n % 5 = 0"
    _insert(
        Run._meta.db_table,
        {
            "id": words.id_at(made, "n"), "namespace": "'default'",
            "job": "COALESCE(p.job, 'tests.noop')", "queue": "'default'", "priority": "0",
            "input": "'{\"value\": 1, \"secret\": \"hidden\"}'", "schedule_id": "t.sid",
            "schedule_name": "COALESCE(p.name, '')", "slot": when("t.sid > 0", words.moment(made)),
            "trigger": "CASE WHEN t.sid > 0 THEN 'slot' ELSE 'submit' END", "status": status,
            "attempt": f"CASE WHEN {started} THEN 1 ELSE 0 END", "max_attempts": "1",
            "run_at": words.moment(f"{made} + CASE WHEN n > {runs - 200} THEN 3600000 ELSE 0 END"),
            "submitted_at": words.moment(made),
            "started_at": when(started, words.moment(f"{made} + 20")),
            "finished_at": when(ended, words.moment(f"{made} + 20 + n % 900")),
            "result": when(f"({status}) = 'completed'", words.json),
            "error": f"CASE WHEN ({status}) = 'failed' THEN {words.text('ValueError: order ', 'n')}"
                     " ELSE '' END",
            "progress_message": "''", "reason": f"CASE WHEN ({status}) <> 'skipped' THEN ''"
                     " WHEN n % 3 = 0 THEN 'misfire' ELSE 'overlap' END",
            "node": f"CASE WHEN {started} THEN {words.text('node-', '1 + n % 8')} ELSE '' END",
            "meta": "'{}'", "token": "1", "crashes": "0", "depth": "0",
            "suspect": "FALSE", "waiting_for": when(held, words.text("guard:", "n % 9")),
        },
        source,
    )  # fmt: skip


def _attempts() -> None:
    copied = {name: f"r.{name}" for name in ("node", "started_at", "finished_at", "error")}
    text = "CASE WHEN r.error = '' THEN '' ELSE 'Traceback (most recent call last):' END"
    _insert(
        Attempt._meta.db_table,
        {**copied, "run_id": "r.id", "number": "1", "outcome": "r.status", "traceback": text},
        "FROM sync_scheduler_run r WHERE r.finished_at IS NOT NULL AND r.started_at IS NOT NULL"
        " ORDER BY r.id",
    )


def _events() -> None:
    _insert(
        Event._meta.db_table,
        {"run_id": "r.id", "at": "r.started_at", "kind": "'heartbeat'", "node": "r.node",
         "attempt": "1", "data": "'{\"progress\": 0.5, \"message\": \"half\"}'"},
        "FROM sync_scheduler_run r WHERE r.started_at IS NOT NULL ORDER BY r.id",
    )  # fmt: skip


def _letters() -> None:
    copied = ("namespace", "schedule_id", "schedule_name", "job", "slot", "reason", "error")
    _insert(
        DeadLetter._meta.db_table,
        {**{name: f"r.{name}" for name in copied}, "kind": "'run'", "run_id": "r.id",
         "created_at": "r.finished_at", "resolved_by": "''", "note": "''",
         "resolution": "CASE WHEN r.priority + r.attempt + LENGTH(r.error) % 2 = 1 THEN ''"
                       " ELSE 'retried' END"},
        "FROM sync_scheduler_run r WHERE r.status IN ('failed', 'timed_out') ORDER BY r.id",
    )  # fmt: skip
