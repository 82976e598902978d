"""Taking a piece out of the source, loudly: a pattern that is not found is an error."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path


class DoesNotApply(Exception):
    """The source has changed so that a safeguard is not where its mutation looks for it."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """Replace every match of `pattern` in the package's files that `where` names."""

    where: str
    pattern: str
    by: str = ""

    def apply(self, texts: dict[Path, str], root: Path) -> None:
        """Change what is in `texts` already, or read it from the file."""
        found = False
        for path in sorted((root / "sync_scheduler").glob(self.where)):
            before = texts.get(path) or path.read_text(encoding="utf-8")
            text, count = re.subn(self.pattern, self.by, before)
            if count:
                texts[path], found = text, True
        if not found:
            raise DoesNotApply(f"{self.pattern!r} is not in {self.where}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutation:
    """`tests` are tried in this order on each of `databases` until one fails."""

    name: str
    cuts: tuple[Cut, ...]
    tests: tuple[str, ...]
    databases: tuple[str, ...] = ("sqlite",)

    def apply(self, root: Path) -> dict[Path, str]:
        """The changed texts, by file."""
        changed: dict[Path, str] = {}
        for cut in self.cuts:
            cut.apply(changed, root)
        return changed
