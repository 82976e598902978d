"""Failpoints of the nodes that a test starts, and which processes they have hit."""

from __future__ import annotations

from pathlib import Path

from sync_scheduler import failpoints
from tests.faults.seed import SEED


def armed(folder: Path, points: str) -> dict[str, str]:
    """The environment of a node with these failpoints (see `sync_scheduler.failpoints`)."""
    failpoints.parse(points)
    place = folder / "failpoints"
    place.mkdir(exist_ok=True)
    (place / failpoints.CONSENT).touch()
    return {failpoints.VARIABLE: points, failpoints.FOLDER: str(place), failpoints.SEED: SEED}


def fired(folder: Path, name: str) -> list[int]:
    """The ids of the processes that were hit, in order."""
    found = (folder / "failpoints").glob(f"{name}.*")
    # A file comes into being a moment before its content.
    texts = [path.read_text() for path in sorted(found, key=lambda p: int(p.suffix[1:]))]
    return [int(text) for text in texts if text]


def hold(folder: Path, name: str) -> None:
    """Use up the one turn of a failpoint with `limit=1`, until `release` gives it back."""
    (folder / "failpoints" / f"{name}.1").touch()


def release(folder: Path, name: str) -> None:
    """The next process that comes there is hit."""
    (folder / "failpoints" / f"{name}.1").unlink(missing_ok=True)
