"""A virtual environment for each product, made once, from the package index by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from benchmarks.peers.catalogue import Peer

CHECKOUT = Path(__file__).parents[2]
CACHE = CHECKOUT / ".bench"


class NotInstalled(Exception):
    """This product cannot be measured here; the message says why."""


def python_of(peer: Peer) -> Path:
    """The interpreter to run the peer with; makes the environment if it is not there yet."""
    if peer.is_ours:
        return Path(sys.executable)
    folder = CACHE / peer.environment
    python, made = folder / "bin" / "python", folder / ".made"
    wanted = "\n".join(peer.packages)
    if not (made.exists() and made.read_text() == wanted):
        _make(peer, folder)
        made.write_text(wanted)
    return python


def _make(peer: Peer, folder: Path) -> None:
    interpreter = _interpreter(peer.python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    _run(str(interpreter), "-m", "venv", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _run(*pip, "--disable-pip-version-check", *peer.packages)


@cache
def _interpreter(least: tuple[int, int]) -> Path:
    """Ours if it is new enough, else the newest of those that this machine has."""
    if sys.version_info >= least:
        return Path(sys.executable)
    named = [shutil.which(f"python3.{minor}") for minor in (13, 12)]
    installed = sorted((Path.home() / ".pyenv" / "versions").glob("3.1[23].*/bin/python"))
    for candidate in [*(Path(name) for name in named if name), *reversed(installed)]:
        try:
            answer = _run(str(candidate), "-c", "import sys; print(*sys.version_info[:2])")
        except NotInstalled:  # a shim of pyenv, say, for a version that is not switched on
            continue
        major, minor = answer.split()
        if (int(major), int(minor)) >= least:
            return candidate
    wanted = ".".join(str(part) for part in least)
    raise NotInstalled(f"it needs Python {wanted} or newer, and none was found")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotInstalled(reason(done.stderr) or f"{command[0]} failed")
    return done.stdout


def reason(output: str) -> str:
    """The last thing that pip called an error, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1].removeprefix("ERROR:").strip()
