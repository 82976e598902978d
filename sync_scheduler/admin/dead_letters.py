"""The section Dead letters: failures grouped by cause, to be retried or discarded together."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from sync_scheduler import clock
from sync_scheduler.admin import letter_versions, letters, links, moments
from sync_scheduler.admin.address import identifier, instant, number, query
from sync_scheduler.admin.letter_retries import retry_all
from sync_scheduler.admin.payloads import hide_in_letters
from sync_scheduler.admin.run_filter import RANGES
from sync_scheduler.admin.section import Section, page
from sync_scheduler.admin.tokens import TokenField
from sync_scheduler.models import DeadLetter
from sync_scheduler.store import dead_letters as store

_RESOLVED_SHOWN = 50
_CLOSED = "closed"
_TITLES: dict[str, str | Promise] = {
    "": gettext_lazy("all"),
    **{key: title for key, (title, _span) in RANGES.items()},
    _CLOSED: gettext_lazy("retried and discarded"),
}


class ManyForm(forms.Form):
    token = TokenField()


class DiscardForm(ManyForm):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
    )


@admin.register(DeadLetter)
class DeadLetterAdmin(Section):
    place = "letters"

    ways: ClassVar[dict[str, str]] = {"retry": "retry/", "discard": "discard/"}

    def show_list(self, request: HttpRequest) -> HttpResponse:
        now = clock.now()
        within = request.GET.get("within", "")
        within = within if within in RANGES else ""
        since = now - RANGES[within][1] if within else None
        shows_closed = request.GET.get("show") == _CLOSED
        found = letters.open_since(since)
        closed: list[DeadLetter] = []
        if shows_closed:
            resolved = DeadLetter.objects.exclude(resolution=DeadLetter.Resolution.OPEN)
            closed = list(resolved.order_by("-id")[:_RESOLVED_SHOWN])
            hide_in_letters(closed)
        versions = letter_versions.since(found.groups, now)
        context = {
            "groups": [
                {
                    **group_row(self, request, group, now, since),
                    "version": versions.get(group.key, ""),
                }
                for group in found.groups
            ],
            "found": found,
            "range": RANGES[within][0] if within else _("all that are kept"),
            "ranges": links.choices(_TITLES, _CLOSED if shows_closed else within, _list_url),
            "closed": closed,
            "shows_closed": shows_closed,
            "all_url": many_url(self, "retry", since, now),
            "missing": "" if self.may(request, "retry_run") else "retry_run",
        }
        return self.show(
            request,
            "admin/sync_scheduler/deadletter/change_list.html",
            title=_("Dead letters"),
            context=context,
        )

    def show_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A letter leads to its run, or to the list."""
        letter = DeadLetter.objects.filter(id=number(object_id) or 0).first()
        if letter is None or letter.run_id is None:
            return super().show_row(request, object_id)
        return HttpResponseRedirect(self.url("change", letter.run_id, model="run"))

    # ------------------------------------------------------------------ many at once

    @page
    def retry_view(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "retry_run")
        found = self._asked(request)
        form = ManyForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            done = retry_all(self, request, found, form.cleaned_data["token"])
            for problem in done.problems:
                messages.warning(request, problem)
            if not done.runs:
                return HttpResponseRedirect(self.url("changelist"))
            first, last = min(run.id for run in done.runs), max(run.id for run in done.runs)
            many = len(done.runs)
            messages.success(
                request,
                ngettext("%(n)s run was submitted.", "%(n)s runs were submitted.", many)
                % {"n": many},
            )
            if many == 1:
                return HttpResponseRedirect(self.url("change", first, model="run"))
            batch = query({"first": first, "last": last, "trigger": "retry"})
            return HttpResponseRedirect(self.url("changelist", model="run") + batch)
        button = _("Retry %(n)s") % {"n": found.count}
        facts = [_("Each becomes a new run with the input of the old one.")]
        return self._ask(request, found, form, _("Retry dead letters"), button, facts)

    @page
    def discard_view(self, request: HttpRequest) -> HttpResponse:
        self.require(request, "retry_run")
        found = self._asked(request)
        form = DiscardForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            allowed = [
                letter
                for group in found.groups
                for letter in group.letters
                if self.may(request, "retry_run", letter)
            ]
            reason = form.cleaned_data["reason"]
            many = store.resolve(
                [letter.id for letter in allowed],
                DeadLetter.Resolution.DISCARDED,
                by=request.user.get_username(),
                note=reason,
            )
            for letter in allowed:
                self.log_change(request, letter, f"Discarded: {reason}")
            messages.success(
                request,
                ngettext("%(n)s letter was discarded.", "%(n)s letters were discarded.", many)
                % {"n": many},
            )
            return HttpResponseRedirect(self.url("changelist"))
        button = _("Discard %(n)s") % {"n": found.count}
        facts = [_("They stay readable until they are deleted with their runs.")]
        return self._ask(request, found, form, _("Discard dead letters"), button, facts)

    def _asked(self, request: HttpRequest) -> letters.Found:
        """What the address names: a cause or all, up to the moment when the list was shown."""
        until = instant(request.GET.get("until", "")) or clock.now()
        since = instant(request.GET.get("since", ""))
        return letters.open_since(
            since,
            until,
            cause=request.GET.get("cause", "")[:40],
            run=identifier(request.GET.get("run", "")),
        )

    def _ask(
        self,
        request: HttpRequest,
        found: letters.Found,
        form: forms.Form,
        title: str,
        button: str,
        facts: list[str],
    ) -> HttpResponse:
        now = clock.now()
        return self.show(
            request,
            "sync_scheduler/many.html",
            title=title,
            context={
                "form": form,
                "groups": [group_row(self, request, group, now, None) for group in found.groups],
                "found": found,
                "facts": facts,
                "button": button,
                "back": self.url("changelist"),
            },
            crumbs=((_("Dead letters"), self.url("changelist")),),
            refresh=0,
        )


def _list_url(key: str) -> str:
    return query({"show": key} if key == _CLOSED else {"within": key})


def many_url(
    section: Section, verb: str, since: dt.datetime | None, until: dt.datetime, cause: str = ""
) -> str:
    """The page that retries or discards exactly what was shown."""
    given = {
        "cause": cause,
        "since": since.isoformat() if since is not None else "",
        "until": until.isoformat(),
    }
    return section.url(verb, model="deadletter") + query(given)


def group_row(
    section: Section,
    request: HttpRequest,
    group: letters.Group,
    now: dt.datetime,
    since: dt.datetime | None,
) -> dict[str, Any]:
    """A group as the lists show it."""
    newest = group.letters[0]
    url = section.url("change", newest.run_id, model="run") if newest.run_id else ""
    names = group.names
    return {
        "group": group,
        "names": names[:3],
        "more_names": max(len(names) - 3, 0),
        "newest": moments.element(group.newest_at, now=now),
        "oldest": moments.element(group.oldest_at, now=now),
        "deleted": moments.element(group.deleted_at, now=now),
        "url": url,
        "retry_url": many_url(section, "retry", since, now, group.key),
        "discard_url": many_url(section, "discard", since, now, group.key),
        "missing": "" if section.may(request, "retry_run") else "retry_run",
    }
