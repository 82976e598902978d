"""What a user installs: the wheel, in an environment that has nothing else."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from sync_scheduler import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sync_scheduler"

pytestmark = pytest.mark.packaging


def run(*argv: str | Path, cwd: Path) -> str:
    """Run a command as a user would, without a trace of the checkout; return what it prints."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "DJANGO", "SYNC_SCHEDULER", "TEST_DATABASE"))
    }
    result = subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, f"{argv}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT),
        cwd=folder,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    in_tree = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == in_tree
    # The kinds that a careless configuration leaves behind.
    kinds = {Path(name).suffix for name in packed}
    assert {".py", ".lua", ".sql"} <= kinds
    assert "sync_scheduler/py.typed" in packed


def test_the_source_archive_holds_whatever_its_makefile_runs(tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT),
        cwd=tmp_path,
    )
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("sync_scheduler", "tests", "example_project", "benchmarks", "scripts")
    code = {
        path.relative_to(ROOT).as_posix()
        for name in folders
        for path in (ROOT / name).rglob("*.py")
    }
    assert code - packed == set()
    texts = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile", "tox.ini"}
    assert texts - packed == set()


def test_the_wheel_asks_for_four_packages_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    needs = metadata.get_all("Requires-Dist", [])
    hard = {re.split(r"[<>=!~ ;\[]", need)[0] for need in needs if "extra ==" not in need}
    assert hard == {"croniter", "django", "django-environ", "redis"}
    assert (metadata["Name"], metadata["Version"]) == ("django-sync-scheduler", __version__)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that has the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    run(interpreter, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return interpreter


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Path:
    """A project as `startproject` makes it, with one app that has one job."""
    run(python, "-m", "django", "startproject", "shop", ".", cwd=tmp_path)
    with (tmp_path / "shop" / "settings.py").open("a") as settings:
        settings.write('INSTALLED_APPS += ["sync_scheduler", "billing"]\n')
    app = tmp_path / "billing"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "jobs.py").write_text(
        "from sync_scheduler import job\n\n\n"
        "@job(name='billing.greet')\n"
        "def greet(name: str) -> dict:\n"
        "    return {'greeting': f'Hello {name}'}\n"
    )
    return tmp_path


def test_a_new_project_runs_its_first_job_from_the_wheel(python: Path, project: Path) -> None:  # B1
    def manage(*arguments: str) -> str:
        return run(python, "manage.py", *arguments, cwd=project)

    def shell(code: str) -> str:
        return manage("shell", "--verbosity", "0", "--command", code)

    where = Path(shell("import sync_scheduler; print(sync_scheduler.__file__)").strip())
    assert where.is_relative_to(python.parents[1])

    manage("makemigrations", "--check", "--dry-run", "sync_scheduler")
    manage("migrate", "--verbosity", "0")
    shell("from billing.jobs import greet; greet.submit(name='Ada')")
    manage("runscheduler", "--drain")

    seen = shell(
        "import json\n"
        "from sync_scheduler.models import Run\n"
        "run = Run.objects.get()\n"
        "print(json.dumps([run.job, run.status, run.result]))"
    )
    assert json.loads(seen) == ["billing.greet", "completed", {"greeting": "Hello Ada"}]
