"""Many schedules at once: made by copying a row, since registering thousands takes minutes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from tests.faults.dispatch.cluster import Cluster

SECONDS = "cron('* * * * * *', tz='UTC')"


def register(cluster: Cluster, name: str, rule: str = SECONDS, **options: Any) -> int:
    """One schedule by the public way; its id. `rule` is Python source, options are as there."""
    register_all(cluster, {name: (rule, options)})
    return int(cluster.value("SELECT id FROM sync_scheduler_schedule WHERE name = %s", name))


def register_all(cluster: Cluster, wanted: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Schedules by name, each with its rule and options."""
    code = "from sync_scheduler import cron, every\nfrom sync_scheduler.models import Schedule\n"
    for name, (rule, options) in wanted.items():
        facts = {"job": "tests.noop", **options}
        code += f"Schedule.objects.register({name!r}, rule={rule}, **{facts!r})\n"
    cluster.run(code)


def copy(cluster: Cluster, template: int, count: int, prefix: str) -> None:
    """So many more schedules like the template, named by the prefix and a number."""
    columns = [
        column
        for (column,) in cluster.query(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_name = 'sync_scheduler_schedule'"
        )
        if column not in {"id", "name"}
    ]
    same = ", ".join(f'"{column}"' for column in columns)
    cluster.execute(
        f"INSERT INTO sync_scheduler_schedule (name, {same})"
        f" SELECT %s || LPAD(n::text, 5, '0'), {same}"
        " FROM sync_scheduler_schedule, GENERATE_SERIES(1, %s) AS n WHERE id = %s",
        prefix,
        count,
        template,
    )


def set_due(cluster: Cluster, at: dt.datetime, prefix: str = "") -> None:
    """Let all of them be due at this instant, and the dispatcher not know it yet."""
    cluster.execute(
        "UPDATE sync_scheduler_schedule SET next_run_at = %s WHERE name LIKE %s || '%%'",
        at,
        prefix,
    )


def lag(
    cluster: Cluster, share: float, prefix: str = "", after: dt.datetime | None = None
) -> float:
    """How long after its time a slot became a Run, in seconds, for this share of them."""
    return float(
        cluster.value(
            "SELECT PERCENTILE_CONT(%s) WITHIN GROUP"
            " (ORDER BY EXTRACT(EPOCH FROM submitted_at - slot)) FROM sync_scheduler_run"
            " WHERE trigger = 'slot' AND schedule_name LIKE %s || '%%'"
            " AND slot > COALESCE(%s::timestamptz, '-infinity')",
            share,
            prefix,
            after,
        )
    )
