"""What is done with Runs: history, show, cancel, retry."""

from __future__ import annotations

import argparse
from typing import Any

from sync_scheduler.management.actions import lookup, moments
from sync_scheduler.management.actions.answer import Action, ActionFailed, Answer, Options, actor
from sync_scheduler.management.actions.table import facts, first_line, printable, table
from sync_scheduler.store.reports import document, runs

_MOST_SHOWN = 1000


def _history(options: Options) -> Answer:
    if not 0 < options["limit"] <= _MOST_SHOWN:
        raise ActionFailed(f"--limit must lie between 1 and {_MOST_SHOWN}.")
    schedule = None if options["name"] is None else lookup.schedule(options["name"])
    before = None if options["before"] is None else lookup.run_id(options["before"])
    page = runs.history(schedule, before=before, limit=options["limit"])
    rows = [
        (
            str(run["id"]),
            run["schedule"] or run["job"],
            run["status"],
            moments.local(run["finished_at"] or run["started_at"] or run["run_at"]),
            moments.took(run["started_at"], run["finished_at"]),
            f"{run['attempt']}/{run['max_attempts']}",
            first_line(run["error"] or run["explanation"], 60),
        )
        for run in page["runs"]
    ]
    headers = ("run", "of", "status", "when", "took", "attempt", "why")
    text = table(headers, rows) if rows else "No Run yet."
    if page["next"] is not None:
        text += f"\n\nOlder ones: --before {page['next']}"
    name = None if schedule is None else schedule.name
    return Answer(document={"schedule": name, **page}, text=text)


def _show(options: Options) -> Answer:
    found = runs.detail(lookup.run(options["run"]))
    return Answer(document=found, text=_in_words(found))


def _in_words(run: runs.RunDetail) -> str:
    slot = moments.local(run["slot"]) if run["slot"] else ""
    progress = "" if run["progress"] is None else f"{run['progress']:.0%} {run['progress_message']}"
    parts = [
        facts(
            [
                ("Run", run["id"]),
                ("Status", run["status"]),
                ("Why", run["explanation"]),
                ("Error", first_line(run["error"])),
                ("Job", run["job"]),
                ("Schedule", run["schedule"]),
                ("Slot", slot),
                ("Trigger", f"{run['trigger']} by {run['by']}" if run["by"] else run["trigger"]),
                ("Retry of", run["retry_of"]),
                ("Queue", f"{run['queue']}, priority {run['priority']}"),
                ("Key", run["key"]),
                ("Submitted", moments.local(run["submitted_at"])),
                ("Due", moments.local(run["run_at"])),
                ("Started", moments.local_or(run["started_at"], "has not started")),
                ("Finished", moments.local_or(run["finished_at"], "has not ended")),
                ("Took", moments.took(run["started_at"], run["finished_at"])),
                ("Progress", progress),
                ("Attempt", f"{run['attempt']} of {run['max_attempts']}"),
                ("Node", run["node"]),
                ("Input", document.render(run["input"])),
                ("Result", document.render(run["result"]) if run["result"] is not None else ""),
            ]
        )
    ]
    if run["steps"]:
        steps = [(s["name"], s["attempt"], moments.local(s["finished_at"])) for s in run["steps"]]
        parts.append(table(("step", "attempt", "finished"), steps))
    events = [
        (
            moments.local(event["at"]),
            event["kind"],
            str(event["attempt"] or ""),
            event["node"],
            first_line(_data(event["data"])),
        )
        for event in run["events"]
    ]
    parts.append(table(("at", "what", "attempt", "node", "details"), events))
    trace = next((a["traceback"] for a in reversed(run["attempts"]) if a["traceback"]), "")
    if trace:
        parts.append("\n".join(printable(line) for line in trace.splitlines()))
    return "\n\n".join(parts)


def _data(data: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in data.items() if value not in ("", None))


def _cancel(options: Options) -> Answer:
    run = lookup.run(options["run"])
    done = run.cancel(reason=options["reason"], by=actor())
    text = f"Run {run.id} is {run.status}."
    return Answer(
        document={"cancelled": done, "run": runs.entry(run, run.input)},
        text=text,
        failure="" if done else f"Run {run.id} had ended already: it is {run.status}.",
    )


def _retry(options: Options) -> Answer:
    run = lookup.run(options["run"])
    again = run.retry(by=actor())
    return Answer(
        document=runs.entry(again, again.input), text=f"Run {run.id} is tried again as {again.id}."
    )


def _one_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="its id, or at least the first 8 characters")


def _history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", default=None, help="of this schedule")
    parser.add_argument("--limit", type=int, default=runs.PAGE, help="how many; default 50")
    parser.add_argument("--before", default=None, metavar="RUN", help="only Runs older than this")


def _cancel_arguments(parser: argparse.ArgumentParser) -> None:
    _one_run(parser)
    parser.add_argument("--reason", default="", help="kept with the Run")


ACTIONS = (
    Action(name="history", help="the last Runs", run=_history, arguments=_history_arguments),
    Action(
        name="show",
        help="one Run with its attempts and its trail",
        run=_show,
        arguments=_one_run,
    ),
    Action(name="cancel", help="ask a Run to stop", run=_cancel, arguments=_cancel_arguments),
    Action(
        name="retry",
        help="a failed or cancelled Run again, as a new Run",
        run=_retry,
        arguments=_one_run,
    ),
)
