"""`status`: the scheduler at a glance. `prune`: remove old history now."""

from __future__ import annotations

from sync_scheduler import clock
from sync_scheduler.dispatch.prune import Pruner
from sync_scheduler.management.actions import moments
from sync_scheduler.management.actions.answer import Action, Answer, Options
from sync_scheduler.management.actions.table import facts, table
from sync_scheduler.store.reports import status


def _status(options: Options) -> Answer:
    found = status.snapshot()
    return Answer(document=found, text=_in_words(found))


def _in_words(found: status.Status) -> str:
    leader, ended = found["leader"], found["last_24h"]
    leads = "nobody, so nothing is dispatched; start `manage.py runscheduler`"
    if leader is not None:
        since = moments.local_or(leader["since"], "unknown")
        leads = f"{leader['node']}, epoch {leader['epoch']}, since {since}"
    parts = [
        facts(
            [
                ("Leader", leads),
                ("Last 24 h", ", ".join(f"{number} {word}" for word, number in ended.items())),
                ("Running", found["running"]),
                ("Waiting", ", ".join(f"{q}: {n}" for q, n in found["waiting"].items()) or "0"),
            ]
        )
    ]
    if found["nodes"]:
        rows = [
            (
                node["name"],
                moments.local(node["started_at"]),
                moments.relative(node["heartbeat_at"]),
                node["running"],
                ", ".join(node["queues"]) or "all",
            )
            for node in found["nodes"]
        ]
        parts.append(table(("node", "started", "heartbeat", "running", "queues"), rows))
    else:
        parts.append("No node is alive.")
    if found["next"]:
        following = [(one["schedule"], moments.due(one["at"], "")) for one in found["next"]]
        parts.append(table(("next", "at"), following))
    else:
        parts.append("No schedule is due.")
    return "\n\n".join(parts)


def _prune(options: Options) -> Answer:
    gone = Pruner().prune(clock.now())
    return Answer(
        document={"pruned": gone}, text=f"Removed {gone} Runs that were kept long enough."
    )


ACTIONS = (
    Action(name="status", help="nodes, leader, what runs, waits and comes next", run=_status),
    Action(name="prune", help="remove old Runs now", run=_prune),
)
