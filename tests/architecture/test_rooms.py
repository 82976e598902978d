"""Rooms stay small, have a name that says something, and import downwards only."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.package import PACKAGE, ROOT, modules

LINES = 300
# Names that say nothing: whatever ends up in such a module has no place of its own.
EMPTY_NAMES = {"utils", "util", "helpers", "common", "base", "services", "managers", "misc"}


def test_no_module_is_longer_than_can_be_read_standing() -> None:
    sizes = {
        module.name: len(module.source.splitlines())
        for module in modules(but_rooms=frozenset({"migrations"}))
    }
    too_long = {name: size for name, size in sizes.items() if size > LINES}
    assert sizes
    assert not too_long, f"more than {LINES} lines; is there a second noun inside?"


def test_no_module_has_a_name_that_says_nothing() -> None:
    named_so = [module.name for module in modules() if module.path.stem in EMPTY_NAMES]
    folders = [path.name for path in PACKAGE.rglob("*") if path.is_dir()]
    assert not named_so + [name for name in folders if name in EMPTY_NAMES]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--no-cache", "--config", str(folder / "pyproject.toml")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        # The copy below must win over the installed package.
        env={"PYTHONPATH": str(folder), "LC_ALL": "C.UTF-8", "COLUMNS": "200"},
    )


def test_imports_run_downwards_only() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(PACKAGE, folder / "sync_scheduler", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("admin", "import redis", "Only coordination speaks to Redis"),
        ("store", "import redis", "Only coordination speaks to Redis"),
        ("models", "import croniter", "Only timing knows croniter"),
        ("timing", "import django", "Timing is pure"),
        ("timing", "import sync_scheduler.conf", "Timing is pure"),
        ("coordination", "import sync_scheduler.models", "Redis and rows never meet"),
        ("store", "import sync_scheduler.coordination", "Rooms import downwards only"),
        ("work", "import sync_scheduler.dispatch", "Rooms import downwards only"),
        ("models", "import sync_scheduler.store", "Rooms import downwards only"),
        ("processes", "import sync_scheduler.management", "Rooms import downwards only"),
        ("attic", "", "Rooms import downwards only"),
    ],
)
def test_an_import_in_the_wrong_direction_is_noticed(
    copy: Path, room: str, line: str, contract: str
) -> None:
    folder = copy / "sync_scheduler" / room
    planted = folder / "planted.py"
    was_there = folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        (folder / "__init__.py").touch()
        planted.write_text(f"{line}\n")
        result = lint_imports(copy)
    finally:
        if was_there:
            planted.unlink(missing_ok=True)
        else:
            shutil.rmtree(folder)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [row for row in result.stdout.splitlines() if " BROKEN" in row]
    assert any(row.startswith(contract) for row in broken), result.stdout
    # Broken by this, and not by something else that happens to be wrong.
    assert (f"sync_scheduler.{room}.planted" if line else room) in result.stdout
