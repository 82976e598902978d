"""`manage.py runscheduler`: the dispatcher and the workers of this node."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sync_scheduler import checks
from sync_scheduler.errors import ServiceUnavailable
from sync_scheduler.intake import declared
from sync_scheduler.processes.service import Plan, Service, leave_pools


class Command(BaseCommand):
    help = "Run the dispatcher and the workers. Start it on as many nodes as you like."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--queues", default="", help="serve only these, comma-separated")
        parser.add_argument("--processes", type=int, default=0, help="default: one per CPU")
        parser.add_argument("--threads", type=int, default=0, help="handlers per process")
        parser.add_argument("--no-dispatch", action="store_true", help="only work")
        parser.add_argument("--no-work", action="store_true", help="only dispatch")
        parser.add_argument(
            "--drain", action="store_true", help="work until nothing is ready, then exit"
        )
        parser.add_argument("--health-port", type=int, default=None, help="answer probes here")

    def handle(self, **options: Any) -> None:
        if options["no_dispatch"] and options["no_work"]:
            raise CommandError("--no-dispatch and --no-work together leave nothing to do.")
        for name in ("processes", "threads"):
            if options[name] < 0:
                raise CommandError(f"--{name} must be at least 1.")
        if options["drain"] and options["no_work"]:
            raise CommandError("--drain is for workers; with --no-work nothing would ever end.")
        if not 0 <= (options["health_port"] or 0) < 65_536:
            raise CommandError("--health-port must be between 1 and 65535.")
        leave_pools()  # before anything connects
        faults = checks.start_up_faults()
        if faults:
            raise CommandError(" ".join(f"{f.msg} {f.hint or ''}".strip() for f in faults))
        _log_to_console(options["verbosity"])
        declared.apply()
        plan = Plan(
            queues=tuple(name.strip() for name in options["queues"].split(",") if name.strip()),
            processes=options["processes"],
            threads=options["threads"],
            dispatch=not options["no_dispatch"],
            work=not options["no_work"],
            drain=options["drain"],
            health_port=options["health_port"],
        )
        try:
            Service(plan).run()
        except ServiceUnavailable as error:
            raise CommandError(str(error)) from None


def _log_to_console(verbosity: int) -> None:
    """A project that has not configured our logger still sees what the node does."""
    logger = logging.getLogger("sync_scheduler")
    if verbosity == 0 or logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
