"""The package's own source, as the architecture tests read it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sync_scheduler"


@dataclass(frozen=True, kw_only=True)
class Module:
    path: Path

    @property
    def name(self) -> str:
        """As seen from the package, `store/runs.py`."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    @property
    def source(self) -> str:
        return self.path.read_text()

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, filename=str(self.path))


def modules(*, but_rooms: frozenset[str] = frozenset()) -> list[Module]:
    """Every module of the package except those of the rooms named, in a stable order."""
    found = [Module(path=path) for path in sorted(PACKAGE.rglob("*.py"))]
    return [module for module in found if module.room not in but_rooms]


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names; calls and everything else in it become `()`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}()"
    return "?"
