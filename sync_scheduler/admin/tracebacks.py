"""Tracebacks: the team's own frames first, those of libraries folded away."""

from __future__ import annotations

import dataclasses
import re

_FILE = re.compile(r'^  File "(?P<path>[^"]*)", line \d+')
_LIBRARY = ("site-packages", "dist-packages", "/lib/python", "<frozen", "sync_scheduler/work/")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    own: str
    library: str
    whole: str

    @property
    def has_library(self) -> bool:
        return bool(self.library)


def split(traceback: str) -> Frames:
    """Sort the frames; what is no frame (messages, chained errors) stays with the own ones."""
    own: list[str] = []
    library: list[str] = []
    current = own
    for line in traceback.splitlines():
        found = _FILE.match(line)
        if found is not None:
            path = found["path"]
            current = library if any(part in path for part in _LIBRARY) else own
        elif not line.startswith("  "):
            current = own
        current.append(line)
    return Frames(own="\n".join(own), library="\n".join(library), whole=traceback)
