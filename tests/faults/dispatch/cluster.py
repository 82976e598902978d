"""Real `runscheduler` processes over a database and a Redis of their own, to be treated badly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.faults import arming, auditor
from tests.faults.database import looking_at
from tests.faults.resources import Survivor
from tests.services.postgres_server import fresh_database
from tests.services.server import Server, wait_until

ROOT = Path(__file__).parents[3]


@dataclass(kw_only=True)
class Member:
    """One `runscheduler` process, in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """As a power cut would."""
        if self.is_running:
            self.signal(signal.SIGKILL)
        self.process.wait(60)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def end(self, seconds: float = 60) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@dataclass(kw_only=True)
class Cluster:
    """`settings` are those of SYNC_SCHEDULER, passed on through the environment."""

    postgres: Server
    folder: Path
    redis: Server | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: Sequence[str] = ("--no-work",)
    url: str = ""
    members: list[Member] = field(default_factory=list)
    excuses: dict[str, str] = field(default_factory=dict)
    _started: int = 0

    def __enter__(self) -> Self:
        self.url = fresh_database(self.postgres)
        self.manage("migrate", "--verbosity", "0")
        auditor.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        auditor.leave(self)
        try:
            if error is None:
                auditor.examine(self)
            else:
                auditor.keep(self, error)
        finally:
            for member in self.members:
                member.kill()

    # ------------------------------------------------------------------ what the auditor asks for

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger"

    @property
    def redis_address(self) -> str | None:
        return None if self.redis is None else self.redis.url

    @property
    def database_ports(self) -> set[int]:
        return {self.postgres.port}

    def survivors(self) -> list[Survivor]:
        works = "--no-work" not in self.arguments
        return [
            Survivor(pid=m.pid, works=works, dispatches=True) for m in self.members if m.is_running
        ]

    def log_files(self) -> list[Path]:
        return [member.log for member in self.members]

    def looking(self) -> AbstractContextManager[None]:
        return looking_at(self.url)

    # ------------------------------------------------------------------ running things

    def armed(self, points: str) -> dict[str, str]:
        """The environment of a member with these failpoints (see `sync_scheduler.failpoints`)."""
        return arming.armed(self.folder, points)

    def fired(self, name: str) -> list[int]:
        """The ids of the processes that a failpoint has hit, in order."""
        return arming.fired(self.folder, name)

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        own |= {
            "TEST_DATABASE": "postgres",
            "TEST_DATABASE_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "LEDGER_FILE": str(self.ledger_path),
            "PYTHONPATH": str(ROOT),
        }
        if self.redis is not None:
            own["SYNC_SCHEDULER_REDIS_URL"] = self.redis.url
        return own | {f"SYNC_SCHEDULER_{name}": str(v) for name, v in self.settings.items()}

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end; its output."""
        return self._finish([sys.executable, "-m", "django", *arguments])

    def run(self, code: str) -> str:
        """Run Python with the project loaded; its output."""
        start = "import django; django.setup()\n"
        return self._finish([sys.executable, "-c", start + code])

    def _finish(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(
        self, *extra: str, environment: Mapping[str, str] | None = None, **settings: Any
    ) -> Member:
        """Start one more process; `environment` and `settings` are for this one alone."""
        self._started += 1
        log = self.folder / f"member-{self._started}.log"
        mine = {f"SYNC_SCHEDULER_{name}": str(value) for name, value in settings.items()}
        mine |= environment or {}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "django", "runscheduler", *self.arguments, *extra],
                env=self.environment | mine,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        member = Member(process=process, log=log)
        self.members.append(member)
        return member

    # ------------------------------------------------------------------ looking

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def execute(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def value(self, statement: str, *values: Any) -> Any:
        return self.query(statement, *values)[0][0]

    def epoch(self) -> int:
        rows = self.query("SELECT epoch FROM sync_scheduler_leader")
        return int(rows[0][0]) if rows else 0

    def leader(self) -> Member | None:
        """The process that leads by the database's word, if it is one of ours and alive."""
        rows = self.query(
            "SELECT holder FROM sync_scheduler_leader WHERE expires_at > CLOCK_TIMESTAMP()"
        )
        pid = int(rows[0][0].split(":")[1]) if rows and rows[0][0] else None
        return next((m for m in self.members if m.pid == pid and m.is_running), None)

    def await_leader(self, seconds: float = 60, but: Member | None = None) -> Member:
        found: list[Member] = []

        def is_led() -> bool:
            leader = self.leader()
            if leader is not None and leader is not but:
                found.append(leader)
            return bool(found)

        # Asked once only: a moment later its lease may have run out.
        wait_until(is_led, seconds=seconds, what="somebody leads")
        return found[0]

    def logs(self) -> str:
        return "\n".join(f"== {m.log.name}\n{m.log.read_text()[-4000:]}" for m in self.members)

    # ------------------------------------------------------------------ schedules

    def register_seconds(self, count: int, **options: Any) -> None:
        """So many schedules of every second, on full seconds."""
        self.run(
            "import json\n"
            "from sync_scheduler import cron\n"
            "from sync_scheduler.models import Schedule\n"
            f"options = json.loads({json.dumps(json.dumps(options))})\n"
            f"for i in range({count}):\n"
            "    Schedule.objects.register(f'second-{i:03d}', job='tests.noop',"
            " rule=cron('* * * * * *', tz='UTC'), **options)\n"
        )


def _is_ours(name: str) -> bool:
    return name.startswith(("SYNC_SCHEDULER_", "TEST_DATABASE")) or name == "LEDGER_FILE"
