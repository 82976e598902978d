"""Failpoints do nothing unless a test has armed them, in two places at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sync_scheduler import failpoints

HIT = "from sync_scheduler import failpoints; failpoints.hit('in_dispatch'); print('went on')"


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_process_has_no_failpoints() -> None:
    assert failpoints.hit is failpoints._nothing
    failpoints.hit("in_dispatch")


def test_an_environment_alone_arms_nothing_and_is_remarked_upon(tmp_path: Path) -> None:
    done = run(
        SYNC_SCHEDULER_FAILPOINTS="in_dispatch=exit", SYNC_SCHEDULER_FAILPOINTS_FOLDER=str(tmp_path)
    )
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "SYNC_SCHEDULER_FAILPOINTS is ignored" in done.stderr


def test_an_armed_process_ends_there_and_leaves_its_id(tmp_path: Path) -> None:
    (tmp_path / failpoints.CONSENT).touch()
    armed = {
        "SYNC_SCHEDULER_FAILPOINTS": "in_dispatch=exit,limit=2",
        "SYNC_SCHEDULER_FAILPOINTS_FOLDER": str(tmp_path),
    }
    ended = [run(**armed) for _ in range(3)]
    assert [done.returncode for done in ended] == [137, 137, 0], "the limit is that of all together"
    assert "failpoints are armed" in ended[0].stderr
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != failpoints.CONSENT)
    assert left == ["in_dispatch.1", "in_dispatch.2"]
    assert all((tmp_path / name).read_text().isdigit() for name in left)


def test_it_happens_from_the_given_hit_on(tmp_path: Path) -> None:
    points = failpoints.parse("in_prune=sleep,first=3,seconds=0")
    armed = failpoints.Armed(points, tmp_path, "seed")
    counts = []
    for _ in range(4):
        armed.hit("in_prune")
        armed.hit("in_dispatch")
        counts.append(len(list(tmp_path.iterdir())))
    assert counts == [0, 0, 1, 2]


def test_a_chance_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def happened(seed: str, folder: Path) -> list[int]:
        folder.mkdir()
        points = failpoints.parse("in_prune=sleep,chance=0.3,seconds=0")
        armed, counts = failpoints.Armed(points, folder, seed), []
        for _ in range(100):
            armed.hit("in_prune")
            counts.append(len(list(folder.iterdir())))
        return counts

    first = happened("a", tmp_path / "first")
    assert happened("a", tmp_path / "second") == first
    assert happened("b", tmp_path / "third") != first
    assert 10 <= first[-1] <= 60


@pytest.mark.parametrize(
    "text", ["nowhere=exit", "in_prune=explode", "in_prune", "in_prune=exit,chance=often"]
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no failpoint|could not convert"):
        failpoints.parse(text)
