"""Letter versions: whether the code has changed since something failed, as far as is known.

A node reports the release that it runs (the setting CODE_VERSION). Where nobody says it, a restart
of every node is all that can be told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.utils.translation import gettext as _

import sync_scheduler
from sync_scheduler.admin import nodes
from sync_scheduler.admin.letters import Group
from sync_scheduler.models import Node, Run


def since(groups: Sequence[Group], now: dt.datetime) -> dict[str, str]:
    """For each group by its key, what became of the code since its newest failure."""
    newest = {group.key: group.letters[0] for group in groups}
    ids = [letter.run_id for letter in newest.values() if letter.run_id is not None]
    if not ids:
        return {}
    ran_on = dict(Run.objects.filter(id__in=ids).values_list("id", "node"))
    known = dict(Node.objects.filter(name__in=set(ran_on.values())).values_list("name", "version"))
    working = [
        node for node in nodes.known(now) if nodes.is_alive(node, now) and "work" in node.roles
    ]
    return {
        key: _told(known.get(ran_on.get(letter.run_id, ""), ""), letter.created_at, working)
        for key, letter in newest.items()
        if letter.run_id is not None
    }


def _told(then: str, failed_at: dt.datetime, working: Sequence[Node]) -> str:
    if not working:
        return ""
    now = sorted({node.version for node in working})
    if _is_release(then) and all(_is_release(version) for version in now):
        words = {"then": then, "now": ", ".join(now)}
        if then in now:
            return _("the code is the same: %(then)s") % words
        return _("the code has changed since: %(then)s, now %(now)s") % words
    if all(node.started_at > failed_at for node in working):
        return _("every node was restarted since")
    return _("nodes were not restarted since")


def _is_release(version: str) -> bool:
    """Whether it names the project's code, not merely this package."""
    return version not in {"", sync_scheduler.__version__}
