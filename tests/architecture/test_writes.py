"""Rows change in `store/` only, where every write names what it holds.

What counts as a write elsewhere:
- a method that only the ORM has (`save`, `bulk_create`, ...), on whatever;
- `create`, `update` or `delete` on a manager or a queryset, recognised by its chain
  (`X.objects...`, `...filter(...)...`), by a variable that such a chain was assigned to, or by
  the name `queryset` that Django hands to actions of the admin;
- `delete()` without arguments: rows have it, dictionaries and Redis clients do not;
- raw SQL, which needs `.cursor()` or `.raw()`.

Allowed: `super().save(...)` and its like, so that a model or an admin may extend them.
"""

from __future__ import annotations

import ast

import pytest

from tests.architecture.package import dotted, modules

ROOMS = frozenset({"store", "migrations"})

ONLY_ORM = {"save", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
SHARED = {"create", "update", "delete"}
RAW = {"cursor", "raw"}
MANAGERS = {"objects", "_default_manager", "_base_manager"}
QUERYSET = {"filter", "exclude", "all", "using", "get_queryset", "select_for_update", "order_by"}


def writes(tree: ast.Module) -> list[str]:
    querysets = _names_of_querysets(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            receiver, method = node.func.value, _sync_name(node.func.attr)
            if dotted(receiver) == "super()":
                continue
            if (
                method in ONLY_ORM
                or (method in RAW and not (method == "cursor" and node.args))
                or (method in SHARED and _is_queryset(receiver, querysets))
                or (method == "delete" and not node.args and not node.keywords)
            ):
                found.append(f"line {node.lineno}: {dotted(node.func)}()")
    return found


def _sync_name(method: str) -> str:
    """`asave` and `save` are one verb."""
    plain = method.removeprefix("a")
    return plain if plain in ONLY_ORM | SHARED else method


def _is_queryset(receiver: ast.expr, names: set[str]) -> bool:
    chain = [part.removesuffix("()") for part in dotted(receiver).split(".")]
    return chain[0] in names or not (MANAGERS | QUERYSET).isdisjoint(chain[1:])


def _names_of_querysets(tree: ast.Module) -> set[str]:
    names = {"queryset"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            # One row of a queryset is no queryset; what is saved on it is seen anyway.
            if _is_queryset(node.value, set()):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_rows_change_only_in_the_store() -> None:
    found = {module.name: writes(module.tree) for module in modules(but_rooms=ROOMS)}
    assert found
    assert not {name: lines for name, lines in found.items() if lines}


def test_the_store_is_seen_to_write() -> None:
    elsewhere = frozenset(module.room for module in modules() if module.room != "store")
    assert any(writes(module.tree) for module in modules(but_rooms=elsewhere))


@pytest.mark.parametrize(
    "source",
    [
        "run.save()",
        "await run.asave()",
        "Run.objects.create(job='x')",
        "Run.objects.using('other').filter(id=1).update(status='x')",
        "await Run.objects.filter(id=1).aupdate(status='x')",
        "rows = Run.objects.filter(id=1)\nrows.delete()",
        "rows: QuerySet = Run.objects.all()\nrows.update(status='x')",
        "def act(self, request, queryset):\n    queryset.update(enabled=True)",
        "schedule.delete()",
        "self.model._default_manager.create()",
        "manager.bulk_create([])",
        "with connection.cursor() as c:\n    c.execute('DELETE FROM t')",
        "Run.objects.raw('SELECT 1')",
    ],
)
def test_a_write_is_noticed(source: str) -> None:
    assert writes(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "values.update(other)",
        "redis.delete('key')",
        "digest.update(b'x')",
        "def save(self):\n    super().save()",
        "Run.objects.filter(id=1).first()",
        "runs.create(job='x')",
    ],
)
def test_what_writes_no_row_is_left_alone(source: str) -> None:
    assert not writes(ast.parse(source))
