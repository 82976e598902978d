"""The verdict: one line that says whether all is well, what is not, or that nothing dispatches."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from sync_scheduler.admin import letters, marks, moments, nodes
from sync_scheduler.admin.coming import Coming
from sync_scheduler.admin.pulse import Pulse
from sync_scheduler.models import Node
from sync_scheduler.store.locking import database_now


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    mark: marks.Mark
    text: str | SafeString


def read(
    *,
    beat: Pulse,
    found: letters.Found,
    missed: int,
    known: Sequence[Node],
    stuck: int,
    due: Sequence[Coming],
    since: dt.datetime,
    now: dt.datetime,
) -> Verdict:
    if beat.is_dead:
        text = format_html(
            _("Nothing dispatches since {}: no node holds the lease."),
            moments.element(beat.silent_since, now=now),
        )
        return Verdict(mark=marks.FAILED, text=text)
    parts = [_failed(found, since), _missed(missed), _silent(known), _stuck(stuck)]
    told = [part for part in parts if part]
    if told:
        text = format_html(_("Attention: {}"), " · ".join(told))
        return Verdict(mark=marks.FAILED if found.count else marks.WARNING, text=text)
    return Verdict(mark=marks.OK, text=_all_well(due))


def _failed(found: letters.Found, since: dt.datetime) -> str:
    if not found.count:
        return ""
    text = ngettext("%(n)s run failed since %(at)s", "%(n)s runs failed since %(at)s", found.count)
    line = text % {
        "n": f"{found.count:,}{'+' if found.is_cut else ''}",
        "at": moments.clock_time(since),
    }
    if len(found.groups) > 2:
        top = sum(group.count for group in found.groups[:2])
        line += " " + _("(2 causes cover %(n)s)") % {"n": f"{top:,}"}
    return line


def _missed(number: int) -> str:
    text = ngettext("%(n)s slot missed", "%(n)s slots missed", number)
    return text % {"n": f"{number:,}"} if number else ""


def _silent(known: Sequence[Node]) -> str:
    now = database_now()
    silent = [node for node in known if nodes.is_silent(node, now)]
    if not silent:
        return ""
    age = moments.span(max((now - node.heartbeat_at).total_seconds() for node in silent))
    many = len(silent)
    text = ngettext("%(n)s node silent %(age)s", "%(n)s nodes silent up to %(age)s", many)
    return text % {"n": many, "age": age}


def _stuck(number: int) -> str:
    text = ngettext("%(n)s run stuck", "%(n)s runs stuck", number)
    return text % {"n": number} if number else ""


def _all_well(due: Sequence[Coming]) -> str:
    if not due:
        return _("All well. Nothing is due within the hour.")
    return _("All well. Next: %(name)s %(at)s.") % {
        "name": due[0].schedule.name,
        "at": moments.clock_time(due[0].first),
    }
