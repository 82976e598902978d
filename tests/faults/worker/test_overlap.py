"""Runs of one schedule that must not run side by side, wherever they come from."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from sync_scheduler import cron, lifecycle
from sync_scheduler.models import Run, Schedule
from tests.faults import figures
from tests.faults.harness import Site
from tests.faults.seed import chance
from tests.testapp import jobs

EACH_SECOND = cron("* * * * * *", tz="UTC")
OPTIONS = ("--processes=2", "--threads=2")
# Active Runs of slots: the one that runs, and what may wait behind it.
MOST = {"skip": 1, "queue": 2}


@pytest.mark.slow
def test_slots_triggers_and_retries_never_overlap_under_kills(site: Site, tmp_path: Path) -> None:
    # A11; L15, L16, L17, faults A16
    draw = chance("A16")
    schedules = [_register(tmp_path, overlap, i) for overlap in MOST for i in range(3)]
    free = _register(tmp_path, "concurrent", 0, seconds=1.5)
    alive = [site.start(*OPTIONS), site.start(*OPTIONS)]
    done: Counter[str] = Counter()
    end = time.monotonic() + 40
    while time.monotonic() < end:
        _assert_depth()
        what = draw.choices(["trigger", "retry", "child", "node"], [6, 6, 2, 0.5])[0]
        if what == "trigger":
            draw.choice(schedules).trigger_now()
        elif what == "retry":
            failed = Run.objects.filter(status="failed").exclude(schedule_name=free.name)
            for run in failed.order_by("-id")[:1]:
                run.retry()
        elif what == "child":
            for victim in alive[draw.randrange(2)].children()[:1]:
                victim.kill()
        else:
            index = draw.randrange(2)
            alive[index].kill()
            alive[index] = site.start(*OPTIONS)
        done[what] += 1
        time.sleep(draw.uniform(0.05, 0.4))
    for schedule in [*schedules, free]:
        Schedule.objects.unregister(schedule.name)
    site.wait(
        lambda: not Run.objects.filter(status__in=lifecycle.ACTIVE).exists(),
        "everything has ended",
        60,
    )

    assert all(done[what] for what in ("trigger", "retry", "child", "node")), done
    overlaps = Counter(line.split()[1] for line in site.lines() if line.startswith("overlap"))
    # The one that may overlap shows that an overlap would be seen.
    assert overlaps.pop(free.name, 0) > 0
    assert not overlaps, site.report()
    kills = done["child"] + done["node"]
    figures.add("A16", runs=Run.objects.count(), kills=kills, note="overlaps 0")
    for trigger in ("slot", "manual", "retry"):
        assert Run.objects.filter(trigger=trigger, status="completed").exists(), trigger


def _register(folder: Path, overlap: str, number: int, seconds: float = 0.4) -> Schedule:
    name = f"{overlap}-{number}"
    return Schedule.objects.register(
        name,
        job=jobs.alone,
        rule=EACH_SECOND,
        overlap=overlap,
        input={"path": str(folder / name), "seconds": seconds},
    ).schedule


def _assert_depth() -> None:
    active = Run.objects.filter(status__in=lifecycle.ACTIVE, trigger="slot")
    deep = Counter(active.exclude(guard=None).values_list("schedule_name", flat=True))
    too_deep = {name: n for name, n in deep.items() if n > MOST[name.split("-")[0]]}
    assert not too_deep
