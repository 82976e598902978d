"""Take out each safeguard in turn, in a copy of the source, and see which test notices.

`python -m tests.mutation.run [PART OF A NAME ...]`. Prints a table; exit code 1 when nothing
noticed, when a mutation does not apply, or when the tests fail without any mutation.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.mutation.cuts import DoesNotApply, Mutation
from tests.mutation.mutations import MUTATIONS
from tests.services import mariadb_server, postgres_server
from tests.services.server import Server

ROOT = Path(__file__).resolve().parents[2]
_SERVERS: dict[str, Callable[[], Server]] = {
    "postgres": postgres_server.start,
    "mysql": mariadb_server.start,
}
_TEST_SECONDS = 240
_COPIED = ("sync_scheduler", "tests", "example_project")
SURVIVED = "SURVIVED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """`noticed` names the test that failed; empty: none did."""

    mutation: Mutation
    database: str
    file: str
    noticed: str
    problem: str = ""

    @property
    def is_good(self) -> bool:
        return bool(self.noticed) and not self.problem


class Bench:
    """A copy of the source in which tests are run, and the servers they need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._urls: dict[str, str] = {}
        self.servers: list[Server] = []
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", folder)

    def test(self, database: str, tests: tuple[str, ...]) -> tuple[int, str]:
        """pytest's exit code and the first test that failed."""
        environment = {**os.environ, "TEST_DATABASE": database, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("TEST_DATABASE_URL", None)
        if database in _SERVERS:
            environment["TEST_DATABASE_URL"] = self._url(database)
        try:
            result = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", "-p",
                 "no:cacheprovider", "--create-db", *tests],
                cwd=self.folder, env=environment, capture_output=True, text=True,
                timeout=_TEST_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"The tests did not end within {_TEST_SECONDS} s.\n")
            return 2, ""
        failed = re.search(r"^FAILED \S+::(\w+)", result.stdout, re.MULTILINE)
        if result.returncode not in {0, 1} or (result.returncode == 1 and failed is None):
            sys.stderr.write(result.stdout + result.stderr)
            return 2, ""
        return result.returncode, failed[1] if failed else ""

    def _url(self, database: str) -> str:
        if database not in self._urls:
            server = _SERVERS[database]()
            self.servers.append(server)
            self._urls[database] = server.url.rpartition("/")[0] + "/sync_scheduler_tests"
        return self._urls[database]

    def close(self) -> None:
        for server in self.servers:
            server.close()


def main(wanted: list[str]) -> int:
    chosen = [m for m in MUTATIONS if not wanted or any(part in m.name for part in wanted)]
    if not chosen:
        sys.stderr.write(f"No safeguard has {' or '.join(map(repr, wanted))} in its name.\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="ss-mutate-") as folder:
        bench = Bench(Path(folder))
        try:
            if not _is_green(bench, chosen):
                return 1
            outcomes = [
                _try(bench, mutation, database)
                for mutation in chosen
                for database in mutation.databases
            ]
        finally:
            bench.close()
    bad = [one for one in outcomes if not one.is_good]
    sys.stdout.write(f"{len(outcomes)} safeguards removed, {len(bad)} of them unnoticed.\n")
    return 1 if bad else 0


def _is_green(bench: Bench, chosen: list[Mutation]) -> bool:
    """Whether the tests pass as long as nothing was taken out."""
    for database in sorted({name for mutation in chosen for name in mutation.databases}):
        tests = {t for m in chosen if database in m.databases for t in m.tests}
        code, failed = bench.test(database, tuple(sorted(tests)))
        if code:
            sys.stderr.write(f"On {database} {failed or 'something'} fails without a mutation.\n")
            return False
    return True


def _try(bench: Bench, mutation: Mutation, database: str) -> Outcome:
    began = time.monotonic()
    try:
        changed = mutation.apply(bench.folder)
    except DoesNotApply as error:
        return _tell(mutation, database, "", "", f"DOES NOT APPLY: {error}", began)
    before = {path: path.read_text(encoding="utf-8") for path in changed}
    try:
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
        code, failed = bench.test(database, mutation.tests)
    finally:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
    file = str(next(iter(changed)).relative_to(bench.folder / "sync_scheduler"))
    problem = "the tests could not be run" if code == 2 else "" if failed else SURVIVED
    return _tell(mutation, database, file, failed, problem, began)


def _tell(
    mutation: Mutation, database: str, file: str, noticed: str, problem: str, began: float
) -> Outcome:
    took = time.monotonic() - began
    sys.stdout.write(
        f"{mutation.name:40} {database:9} {file:28} {problem or noticed} ({took:.0f} s)\n"
    )
    sys.stdout.flush()
    return Outcome(
        mutation=mutation, database=database, file=file, noticed=noticed, problem=problem
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
