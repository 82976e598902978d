"""What is done with schedules: list, preview, trigger, pause, resume, backfill."""

from __future__ import annotations

import argparse
import zoneinfo

from django.db import transaction

from sync_scheduler import clock, conf
from sync_scheduler.errors import JoinTimeout
from sync_scheduler.intake import backfill
from sync_scheduler.lifecycle import State
from sync_scheduler.management.actions import lookup, moments
from sync_scheduler.management.actions.answer import Action, ActionFailed, Answer, Options, actor
from sync_scheduler.management.actions.table import first_line, table
from sync_scheduler.models import Run
from sync_scheduler.store.locking import database_now
from sync_scheduler.store.reports import runs, schedules, status, troubles

_MOST_PREVIEWED = 1000


def _list(options: Options) -> Answer:
    page = schedules.page(limit=None)
    rows = [
        (
            one["name"],
            one["job"],
            one["rule"],
            one["timezone"],
            _state(one),
            _next(one),
            one["last_run"]["status"] if one["last_run"] else "has never run",
        )
        for one in page["schedules"]
    ]
    headers = ("name", "job", "rule", "zone", "state", "next", "last run")
    text = table(headers, rows) if rows else "There is no schedule yet."
    return Answer(document={"schedules": page["schedules"]}, text=text)


def _state(one: schedules.ScheduleEntry) -> str:
    if not one["enabled"]:
        why = first_line(one["note"].removeprefix("Disabled: "), 60)
        return f"disabled: {why}" if why else "disabled"
    if one["paused"]:
        until = f" until {moments.local(one['paused_until'])}" if one["paused_until"] else ""
        note = f": {one['pause_note']}" if one["pause_note"] else ""
        return f"paused{until}{note}"
    return f"error: {first_line(one['error'], 60)}" if one["error"] else "ok"


def _next(one: schedules.ScheduleEntry) -> str:
    at, until = one["next_run_at"], one["paused_until"]
    if one["enabled"] and one["paused"] and (until is None or at is None or at < until):
        return "not planned: paused"
    return moments.due(at, "not planned")


def _preview(options: Options) -> Answer:
    if not 0 < options["number"] <= _MOST_PREVIEWED:
        raise ActionFailed(f"-n must lie between 1 and {_MOST_PREVIEWED}.")
    schedule = lookup.schedule(options["name"])
    slots = schedule.preview(options["number"])
    zone = zoneinfo.ZoneInfo(schedule.timezone)
    rows = [(moments.local(slot, zone), f"{slot:%Y-%m-%d %H:%M:%S} UTC") for slot in slots]
    text = table(("slot", "utc"), rows) if rows else "It has no slot left."
    head = f"{schedule.name}: {schedule.rule} ({schedule.timezone})"
    if not schedule.enabled or schedule.is_paused:
        head += " (it is disabled)" if not schedule.enabled else " (it is paused)"
    return Answer(
        document={"schedule": schedule.name, "rule": schedule.rule, "slots": slots},
        text=f"{head}\n\n{text}",
    )


def _trigger(options: Options) -> Answer:
    if options["key"] == "":
        raise ActionFailed("--key must not be empty; leave it out for none.")
    schedule = lookup.schedule(options["name"])
    run = schedule.trigger_now(key=options["key"], by=actor())
    failure = ""
    if options["wait"]:
        failure = _wait(run, options["timeout"])
    entry = runs.entry(run, run.input)
    text = f"Run {run.id} of {schedule.name!r} is {run.status}."
    return Answer(document=entry, text=text, failure=failure)


def _wait(run: Run, timeout: float | None) -> str:
    """Wait for the end; says what went wrong, if something did."""
    try:
        run.join(timeout)
    except JoinTimeout as error:
        return f"{error}{_why_it_waits(run)}"
    if run.status == State.COMPLETED:
        return ""
    entry = runs.entry(run, run.input)
    why = first_line(entry["error"]) or entry["reason"]
    return f"Run {run.id} is {run.status}: {why}" if why else f"Run {run.id} is {run.status}."


def _why_it_waits(run: Run) -> str:
    """Where it is nobody's turn, waiting longer will not help."""
    if run.status != State.SUBMITTED:
        return ""
    alive = status.alive_nodes(database_now())
    if not troubles.workers(alive):
        return " No worker is alive: start `manage.py runscheduler`."
    if troubles.unserved({run.queue}, alive):
        return f" No worker serves its queue {run.queue!r}: start one that does."
    return ""


def _pause(options: Options) -> Answer:
    schedule = lookup.schedule(options["name"])
    until = None if options["until"] is None else moments.parse(options["until"], "--until")
    if until is not None and until <= clock.now():
        raise ActionFailed(f"--until: {options['until']!r} has passed already.")
    schedule.pause(note=options["note"], until=until, by=actor())
    ends = "until somebody resumes it" if until is None else f"until {moments.local(until)}"
    return Answer(
        document={"schedule": schedule.name, "paused": True, "until": until},
        text=f"Schedule {schedule.name!r} is paused {ends}.",
    )


def _resume(options: Options) -> Answer:
    schedule = lookup.schedule(options["name"])
    was_paused = schedule.is_paused
    schedule.resume()
    following = moments.local_or(schedule.next_run_at, "not planned")
    word = "goes on" if was_paused else "was not paused"
    return Answer(
        document={
            "schedule": schedule.name,
            "paused": False,
            "was_paused": was_paused,
            "next_run_at": schedule.next_run_at,
        },
        text=f"Schedule {schedule.name!r} {word}. Next: {following}.",
    )


def _backfill(options: Options) -> Answer:
    schedule = lookup.schedule(options["name"])
    start, end = moments.parse(options["start"], "FROM"), moments.parse(options["end"], "TO")
    dry = options["dry_run"]
    with transaction.atomic(using=conf.get().DATABASE):
        gaps = backfill.plan(schedule, start, end)
        filled = {} if dry else {r.slot: r for r in schedule.backfill(start, end, by=actor())}
    rows = [(gap.slot, gap.run or filled.get(gap.slot), gap.is_open) for gap in gaps]
    new = sum(is_new for _, _, is_new in rows)
    shown = table(
        ("slot", "run"),
        [
            (
                moments.local(slot),
                "would be filled"
                if run is None
                else str(run.id)
                if is_new
                else f"has {run.id} already",
            )
            for slot, run, is_new in rows
        ],
    )
    verb = "would be" if dry else "were"
    head = f"{new} Runs {verb} submitted for {schedule.name!r}."
    return Answer(
        document={
            "schedule": schedule.name,
            "dry_run": dry,
            "submitted": new,
            "slots": [
                {"slot": slot, "run": None if run is None else run.id, "new": is_new}
                for slot, run, is_new in rows
            ],
        },
        text=f"{head}\n\n{shown}" if rows else f"{head} No slot in this range is missing.",
    )


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the schedule's name")


def _preview_arguments(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("-n", dest="number", type=int, default=10, help="how many; default 10")


def _trigger_arguments(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("--key", default=None, help="makes a repeated trigger safe")
    parser.add_argument("--wait", action="store_true", help="until the Run has ended")
    parser.add_argument(
        "--timeout", type=float, default=None, help="seconds to wait at most; default JOIN_TIMEOUT"
    )


def _pause_arguments(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("--note", default="", help="why")
    parser.add_argument("--until", default=None, metavar="TIME", help="ISO 8601; resumes itself")


def _backfill_arguments(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("start", metavar="FROM", help="ISO 8601")
    parser.add_argument("end", metavar="TO", help="ISO 8601")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


ACTIONS = (
    Action(name="list", help="all schedules", run=_list),
    Action(
        name="preview",
        help="the next slots of a schedule",
        run=_preview,
        arguments=_preview_arguments,
    ),
    Action(
        name="trigger",
        help="submit a Run of a schedule now",
        run=_trigger,
        arguments=_trigger_arguments,
    ),
    Action(
        name="pause",
        help="let slots pass without a Run",
        run=_pause,
        arguments=_pause_arguments,
    ),
    Action(name="resume", help="go on with a paused schedule", run=_resume, arguments=_named),
    Action(
        name="backfill",
        help="Runs for the slots of a past range that have none",
        run=_backfill,
        arguments=_backfill_arguments,
    ),
)
