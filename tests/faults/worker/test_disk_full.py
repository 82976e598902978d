"""The disk of the database is full for a while."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.db import DatabaseError

from sync_scheduler.models import Run
from tests.faults import figures
from tests.faults.bounds import bound
from tests.faults.harness import Site, pause
from tests.faults.worker import outage
from tests.services import Server, Unavailable, postgres_server
from tests.services.plugin import provide
from tests.testapp import jobs

# Room for an empty PostgreSQL, and not for much more.
SIZE = "160m"


@contextmanager
def small_disk() -> Generator[Path, None, None]:
    """A file system of its own that a test may fill; needs the right to mount one."""
    folder = Path(tempfile.mkdtemp(prefix="ss-disk-", dir="/tmp"))
    folder.chmod(0o755)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0777", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(f"no small disk: {error}") from error
    if done.returncode != 0:
        folder.rmdir()
        raise Unavailable(f"no small disk: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def fill(disk: Path) -> None:
    """Until not a single page is left."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


@pytest.fixture(scope="module")
def own_postgres() -> Generator[Server, None, None]:
    """A server whose data lie on the small disk, in the folder above its own."""
    settings = {**outage.DURABLE, "max_wal_size": "48MB", "min_wal_size": "32MB"}
    with ExitStack() as stack:

        def start() -> Server:
            disk = stack.enter_context(small_disk())
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tempfile, "tempdir", str(disk))
                return postgres_server.start(settings=settings)

        yield stack.enter_context(provide("a PostgreSQL on a small disk", start))


@pytest.mark.slow
def test_ten_seconds_of_a_full_disk_lose_no_run_whose_submit_was_answered(
    postgres_site: Site, own_postgres: Server
) -> None:
    # B11; faults A24
    site, disk = postgres_site, own_postgres.folder.parent
    nodes = [site.start("--processes=1", "--threads=2") for _ in range(2)]
    outage.load(site)
    answered, refused = outage.submit(), 0
    fill(disk)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            answered += jobs.echo.submit_many([{"value": "x" * 2000}] * 20)
        except DatabaseError:
            refused += 1
            outage.reconnect()
        pause(0.2)
    (disk / "filler").unlink()
    if not own_postgres.is_running:
        own_postgres.restart()
    site.wait(lambda: postgres_server.answers(own_postgres.url), "the server answers", 60)
    outage.reconnect()
    took = outage.wait_recovered(site)

    assert refused, "the disk was never full"
    assert all(node.is_running for node in nodes)
    site.wait_ended(answered, 60)
    stored = Run.objects.filter(id__in=[run.id for run in answered])
    assert stored.count() == len(answered)
    slots = outage.assert_nothing_lost(site, [run for run in answered if run.job != "tests.echo"])
    figures.add(
        "A24",
        slots=slots,
        runs=len(answered),
        lost=0,
        duplicated=0,
        takeovers=[took],
        note=f"{refused} submits were refused while the disk was full",
    )
    assert took <= bound(10, beside_others=outage.PATIENCE)
