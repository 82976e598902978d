"""One Run over HTTP: look at it, cancel it, try it again."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest

from sync_scheduler.api import journal
from sync_scheduler.api.access import Caller
from sync_scheduler.api.endpoint import Problem, body_of, endpoint, key_of
from sync_scheduler.models import Run
from sync_scheduler.store.reports import runs


@endpoint("view_run")
def show(request: HttpRequest, caller: Caller, run_id: str) -> runs.RunDetail:
    return runs.detail(_found(run_id), with_payload=caller.may("view_payload"))


@endpoint("cancel_run", method="POST")
def cancel(request: HttpRequest, caller: Caller, run_id: str) -> dict[str, Any]:
    given = body_of(request, {"reason": str})
    run = _found(run_id)
    done = run.cancel(reason=given.get("reason", ""), by=caller.name)
    if done:
        journal.note(caller, run, "Cancelled over HTTP.")
    return {"cancelled": done, "run": runs.entry(run, run.input)}


@endpoint("retry_run", method="POST", status=201)
def retry(request: HttpRequest, caller: Caller, run_id: str) -> runs.RunEntry:
    given = body_of(request, {"key": str})
    run = _found(run_id)
    again = run.retry(by=caller.name, key=key_of(given))
    journal.note(caller, run, f"Retried over HTTP as run {again.id}.")
    return runs.entry(again, again.input)


def _found(text: str) -> Run:
    try:
        run = runs.get(uuid.UUID(text))
    except ValueError:
        raise Problem(404, "A run's id is a UUID.") from None
    if run is None:
        raise Problem(404, f"There is no run {text}; it may have been pruned.")
    return run
