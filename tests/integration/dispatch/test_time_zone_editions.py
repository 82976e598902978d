"""A government has changed its clocks: the next edition of the time zone database says so."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import zoneinfo
from pathlib import Path

import pytest

from sync_scheduler import clock, cron
from sync_scheduler.models import Run, Schedule
from tests.integration.dispatch.leading import lead
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)

ZONE = "Europe/Berlin"
MEND = """
import django; django.setup()
from sync_scheduler import clock
from sync_scheduler.dispatch.mend import Mender
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.dispatch.term import Term
from sync_scheduler.models import Schedule
from sync_scheduler.timing.zones import tzdata_version
term = Term(epoch={epoch}, holder="n", trusted_until=clock.boot_seconds() + 60)
print(Mender().mend(clock.now(), term.epoch), tzdata_version())
tick(term, clock.now())
"""


def tree(folder: Path, edition: str, berlin: str) -> Path:
    """A time zone database in which Berlin's clocks go like those of another place."""
    for name, source in {"UTC": "UTC", ZONE: berlin}.items():
        for root in zoneinfo.TZPATH:
            if (Path(root) / source).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(root) / source, folder / name)
                break
        else:
            pytest.skip("this machine has no time zone files to copy from")
    (folder / "tzdata.zi").write_text(f"# version {edition}\n")
    return folder


def mend_with(folder: Path, epoch: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MEND.format(epoch=epoch)],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PYTHONTZPATH": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_new_edition_moves_the_next_run_and_repeats_no_slot(tmp_path: Path) -> None:
    # L10
    term = lead()
    old, new = tree(tmp_path / "old", "old", ZONE), tree(tmp_path / "new", "new", "Asia/Tokyo")
    # Far from now on either clock, or a slot may come due while this goes on.
    hour = (clock.now().astimezone(zoneinfo.ZoneInfo(ZONE)).hour + 12) % 24
    schedule = Schedule.objects.register(
        "daily", job=jobs.noop, rule=cron(f"30 {hour} * * *", tz=ZONE)
    ).schedule
    before = schedule.next_run_at
    assert before is not None
    Schedule.objects.filter(pk=schedule.pk).update(last_slot=before - dt.timedelta(days=1))

    assert mend_with(old, term.epoch) == "0 old"
    schedule.refresh_from_db()
    assert schedule.next_run_at == before

    assert mend_with(new, term.epoch) == "1 new"
    schedule.refresh_from_db()
    assert schedule.next_run_at is not None
    assert schedule.next_run_at.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo")).hour == hour
    assert schedule.last_slot is not None
    assert schedule.next_run_at > schedule.last_slot
    assert Run.objects.count() == 0
    assert mend_with(new, term.epoch) == "0 new"
