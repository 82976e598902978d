"""Measure ours and every peer, and put the figures side by side.

    python -m benchmarks.peers [--peers name,name] [--repeat N] [--jobs N] [--json FILE]

Starts its own PostgreSQL (every commit is flushed) and Redis (AOF every second). Each peer lives in
a virtual environment of its own under `.bench`, made when it is first needed; remove that folder to
get the newest releases. Ours is measured before and after the others in each round. Exits with 1
if ours is not fast enough beside them. Wants a quiet machine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from benchmarks.peers import machine, report, stamps
from benchmarks.peers.catalogue import OURS, Peer, chosen
from benchmarks.peers.comparison import figures
from benchmarks.peers.environment import CACHE, CHECKOUT, NotInstalled, python_of
from benchmarks.peers.project import DATABASE_URL, REDIS_URL
from tests.services import postgres_server, redis_server
from tests.services.server import Server

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class NotMeasured(Exception):
    """The measurement of a peer failed; the message is the last line that it said."""


@dataclass(kw_only=True)
class Session:
    """The servers of this run, and what was found out so far."""

    postgres: Server
    cache: Server
    folder: Path
    options: argparse.Namespace
    measurements: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, peer: Peer) -> None:
        """Measure a peer once; what cannot be measured is kept with the reason."""
        try:
            found = self._measure(peer, python_of(peer))
        except (NotInstalled, NotMeasured) as error:
            self.absent[peer.name] = str(error)
            print(f"  {peer.name:<24} NOT MEASURED: {error}", flush=True)
            return
        self.measurements.append({"peer": peer.name, **found})
        self.versions |= found["versions"]
        shown = figures(peer, found)
        wait = "-" if shown.p50 is None else f"{shown.p50:,.1f}"
        print(
            f"  {peer.name:<24} {shown.throughput:>9,.0f} jobs/s  {shown.submit:>7,.0f} submits/s  "
            f"p50 {wait:>7} ms  floor {shown.floor:>7,.0f}",
            flush=True,
        )

    def floor(self) -> dict[str, float]:
        """In a process of its own, so that it has the machine to itself like everyone else."""
        command = [sys.executable, "-m", "benchmarks.peers.machine"]
        done = subprocess.run(
            [*self.prefix, *command, self.postgres.url, self.cache.url],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, float] = json.loads(done.stdout)
        return found

    @property
    def prefix(self) -> list[str]:
        return shlex.split(self.options.alone)

    def _measure(self, peer: Peer, python: Path) -> dict[str, Any]:
        with redis.Redis.from_url(self.cache.url) as client:
            client.flushall()
        out, log = self.folder / "figures.json", CACHE / f"{peer.name}.log"
        out.unlink(missing_ok=True)
        command = [
            *self.prefix,
            *(str(python), "-m", "benchmarks.peers.driver", peer.project),
            *("--out", str(out), "--log", str(log)),
            *("--packages", ",".join(peer.distributions)),
            *("--jobs", str(self.options.jobs or peer.jobs)),
            *("--waits", str(min(self.options.waits, peer.waits)), "--pause", str(peer.pause)),
        ]
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=CHECKOUT,
                env=self._environment(peer),
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if not out.exists():
            said = log.read_text(errors="replace").strip().splitlines()
            raise NotMeasured(f"exit code {done.returncode}, {said[-1] if said else 'silent'}")
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def _environment(self, peer: Peer) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SYNC_SCHEDULER_")}
        settings = CHECKOUT / "benchmarks" / "peers" / "projects" / peer.project / "settings.py"
        module = f"benchmarks.peers.projects.{peer.project}.settings"
        return {
            **clean,
            **({"DJANGO_SETTINGS_MODULE": module} if settings.exists() else {}),
            "PYTHONPATH": str(CHECKOUT),
            DATABASE_URL: postgres_server.fresh_database(self.postgres),
            REDIS_URL: self.cache.url,
            stamps.FILE: str(self.folder / "stamps"),
            **peer.variables,
        }


@contextmanager
def session(options: argparse.Namespace) -> Iterator[Session]:
    with (
        tempfile.TemporaryDirectory(prefix="ss-peers-") as folder,
        postgres_server.start(settings=DURABLE) as postgres,
        redis_server.start(appendonly=True, settings={"appendfsync": "everysec"}) as cache,
    ):
        yield Session(postgres=postgres, cache=cache, folder=Path(folder), options=options)


def run(current: Session, peers: Sequence[Peer]) -> dict[str, Any]:
    """All rounds. Kept after each measurement, so that an interrupted run is not lost."""
    found: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine.facts(current.postgres.url, current.cache.url),
        "floor": [],
        "versions": current.versions,
        "not_measured": current.absent,
        "measurements": current.measurements,
    }
    for number in range(current.options.repeat):
        found["floor"].append(current.floor())
        print(f"Round {number + 1} of {current.options.repeat}; {_said(found['floor'][-1])}")
        for peer in (OURS, *peers, *((OURS,) if peers else ())):
            current.add(peer)
            Path(current.options.json).write_text(json.dumps(found, indent=1) + "\n")
    return found


def _commit() -> str:
    """Which state of this checkout was measured."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or "unknown"


def _said(floor: dict[str, float]) -> str:
    return (
        f"floor: {floor['commits_per_second']:,.0f} bare commits/s, "
        f"{floor['redis_round_trip_us']:,.0f} us to Redis and back"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.peers")
    parser.add_argument("--peers", default="", help="only these, comma-separated")
    parser.add_argument("--repeat", type=int, default=1, help="rounds; medians are compared")
    parser.add_argument("--jobs", type=int, default=0, help="instead of each peer's own number")
    parser.add_argument("--waits", type=int, default=100, help="at most so many waits each")
    parser.add_argument("--json", default=str(CACHE / "peers.json"), help="where to keep it all")
    parser.add_argument(
        "--alone", default="", help="a command to run each measurement under, such as a lock"
    )
    options = parser.parse_args(arguments)
    try:
        peers = chosen(options.peers)
    except ValueError as error:
        parser.error(str(error))
    CACHE.mkdir(exist_ok=True)
    # An exception, so that the servers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with session(options) as current:
        found = run(current, peers)
        print("\n" + report.plain(found))
        return 1 if report.has_missed(found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
