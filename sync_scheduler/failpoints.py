"""Places where a test may kill, stop or delay a process of its own. Elsewhere they do nothing.

The code calls `hit(name)` at moments when a crash would hurt most. Unless failpoints are armed
when the process starts, `hit` is an empty function. Nothing at run time can arm them: no setting,
no request, no row. Two things are needed, so that an environment which was copied from a test
machine arms nothing:

* `SYNC_SCHEDULER_FAILPOINTS` says what is to happen where:
  `after_claim_before_start=exit,chance=0.2,limit=5;in_dispatch=sleep,seconds=3`;
* `SYNC_SCHEDULER_FAILPOINTS_FOLDER` names a folder in which there is a file `armed`.

Without the second the first is ignored, and a warning says so; an armed process says that too.

Actions: `exit` ends the process at once, as SIGKILL would; `stop` freezes it (SIGSTOP) until
somebody wakes it; `sleep` holds the calling thread for `seconds`. `chance` is that of each hit,
`first` the hit of a process from which on it happens, `limit` how often it happens in all
processes together. Each time leaves a file `<name>.<number>` with the process id in the folder.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sync_scheduler import clock

logger = logging.getLogger(__name__)

VARIABLE = "SYNC_SCHEDULER_FAILPOINTS"
FOLDER = "SYNC_SCHEDULER_FAILPOINTS_FOLDER"
SEED = "SYNC_SCHEDULER_FAILPOINTS_SEED"
CONSENT = "armed"

NAMES = frozenset(
    {
        "in_dispatch",  # decided what becomes of due slots, not yet written
        "after_cas_before_commit",  # slots written in a transaction that is still open
        "after_mint_before_record",  # the next epoch is ours, its term is not recorded
        "after_commit_before_push",  # Runs are committed, nobody has been told
        "after_claim_before_start",  # Runs are this node's, no child has got them
        "after_handler_before_complete",  # the handler has returned, nothing is recorded
        "after_complete_before_commit",  # an atomic handler's end is written, not committed
        "in_prune",  # part of a batch of history is deleted
    }
)
ACTIONS = frozenset({"exit", "stop", "sleep"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failpoint:
    """What happens at one place."""

    action: str
    chance: float = 1.0
    first: int = 1
    limit: int = 1000
    seconds: float = 3600.0


class Armed:
    """The failpoints of a process under test."""

    def __init__(self, points: Mapping[str, Failpoint], folder: Path, seed: str) -> None:
        self._points = points
        self._folder = folder
        self._seed = seed
        self._hits: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        point = self._points.get(name)
        if point is None:
            return
        self._hits[name] += 1
        number, pid = self._hits[name], os.getpid()
        # Drawn anew for every hit: a forked child would repeat its siblings' numbers.
        draw = random.Random(f"{self._seed}:{name}:{pid}:{number}").random()  # noqa: S311
        if number >= point.first and draw < point.chance and self._count(name, point, pid):
            _act(point)

    def _count(self, name: str, point: Failpoint, pid: int) -> bool:
        """Take one of the turns that all processes share; False: they are used up."""
        for number in range(1, point.limit + 1):
            try:
                with (self._folder / f"{name}.{number}").open("x") as file:
                    file.write(str(pid))
            except FileExistsError:
                continue
            return True
        return False


def _act(point: Failpoint) -> None:
    if point.action == "exit":
        os._exit(137)
    elif point.action == "stop":
        # To this very thread: it would go on for a moment if another one took the signal.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    else:
        clock.sleep(point.seconds)


def parse(text: str) -> dict[str, Failpoint]:
    """`name=action,option=value;...`; raises ValueError for anything that is not known."""
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, rest = part.partition("=")
        action, *options = rest.split(",")
        if name not in NAMES or action not in ACTIONS:
            raise ValueError(f"{part!r} names no failpoint and action.")
        found[name] = Failpoint(action=action, **_options(options))
    return found


def _options(texts: list[str]) -> dict[str, Any]:
    kinds: dict[str, Callable[[str], float | int]]
    kinds = {"chance": float, "first": int, "limit": int, "seconds": float}
    given = dict(text.split("=", 1) for text in texts)
    return {name: kinds[name](value) for name, value in given.items()}


def _nothing(name: str) -> None:
    """What `hit` is in every process that is not under test."""


def _bind() -> Callable[[str], None]:
    text = os.environ.get(VARIABLE)
    if not text:
        return _nothing
    folder = Path(os.environ.get(FOLDER) or "/nonexistent")
    if not (folder / CONSENT).is_file():
        logger.warning(
            "%s is ignored: failpoints are for tests, and %s names no folder that allows them",
            VARIABLE,
            FOLDER,
        )
        return _nothing
    logger.warning("failpoints are armed in this process: %s", text)
    return Armed(parse(text), folder, os.environ.get(SEED, "")).hit


hit = _bind()
