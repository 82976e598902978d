"""`manage.py scheduler ACTION`: everything that an operator does from a shell."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from sync_scheduler import checks, conf
from sync_scheduler.errors import SchedulerError
from sync_scheduler.management.actions import doctor, overview, runs, schedules
from sync_scheduler.management.actions.answer import Action, ActionFailed, Answer
from sync_scheduler.management.actions.table import first_line, printable
from sync_scheduler.store.reports import document

ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (*overview.ACTIONS, *schedules.ACTIONS, *runs.ACTIONS, *doctor.ACTIONS)
}


class Command(BaseCommand):
    help = "See and steer the scheduler. `scheduler ACTION --help` explains each action."
    # `doctor` must be able to start exactly when something is wrong.
    requires_system_checks: list[str] = []  # noqa: RUF012  # Django's own name and type

    def add_arguments(self, parser: CommandParser) -> None:
        # An argument that cannot be read is one line and exit code 1, as every other error.
        parser.called_from_command_line = False
        _add_json(parser, default=False)
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for action in ACTIONS.values():
            own = actions.add_parser(action.name, help=action.help, description=action.help)
            _add_json(own, default=argparse.SUPPRESS)
            action.arguments(own)

    def run_from_argv(self, argv: list[str]) -> None:
        try:
            super().run_from_argv(argv)
        except CommandError as error:
            self.stderr.write(str(error))
            sys.exit(error.returncode)

    def handle(self, **options: Any) -> None:
        action = ACTIONS[options["action"]]
        answer = _run(action, options)
        shown = document.render(answer.document, indent=2) if options["json"] else answer.text
        self.stdout.write(shown)
        if answer.failure:
            raise CommandError(printable(answer.failure))


def _add_json(parser: argparse.ArgumentParser, default: Any) -> None:
    parser.add_argument(
        "--json", action="store_true", default=default, help="one JSON document, for scripts"
    )


def _run(action: Action, options: dict[str, Any]) -> Answer:
    try:
        if action.needs_valid_settings:
            conf.get()
        return action.run(options)
    except (ActionFailed, SchedulerError) as error:
        raise CommandError(printable(str(error))) from error
    except (DatabaseError, InterfaceError) as error:
        raise CommandError(printable(_why_unusable(error))) from error


def _why_unusable(error: Exception) -> str:
    """Most often it was not migrated, which the error of a missing table or column hides."""
    with suppress(DatabaseError, InterfaceError):
        if lacking := checks.missing_migrations():
            return f"{lacking[0].msg} {lacking[0].hint}"
    why = first_line(str(error)) or type(error).__name__
    return f"The database cannot be used: {why}. `manage.py scheduler doctor` says more."
