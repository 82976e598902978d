"""A storm: a load that goes on, faults by chance, and the reckoning afterwards."""

from __future__ import annotations

import dataclasses
import datetime as dt
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connections

from sync_scheduler import cron, lifecycle
from sync_scheduler.models import Attempt, Run, Schedule, Term
from sync_scheduler.store.locking import database_now
from tests.faults import auditor, invariants
from tests.faults.harness import QUICK, Site
from tests.faults.node import Node
from tests.faults.proxy import Proxy
from tests.faults.seed import SEED, chance
from tests.services import Server
from tests.testapp import jobs

SCHEDULES, GUARDED, NODES = 20, 2, 3
OPTIONS = ("--processes=2", "--threads=2")
# Seconds between two faults, and how long those last that do not end by themselves.
PAUSE, LASTING = (1.0, 6.0), (0.5, 4.0)
BATCH, BATCH_SECONDS = 10, 0.5
SETTLE_SECONDS = 180.0
EACH_SECOND = cron("* * * * * *", tz="UTC")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Servers:
    postgres: Server
    redis: Server
    postgres_proxy: Proxy
    redis_proxy: Proxy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """What a node with its children holds."""

    memory: int
    files: int


class Storm:
    """The first node is a veteran: it is frozen and cut off like the others, but never killed."""

    def __init__(self, folder: Path, servers: Servers, url: str) -> None:
        self._servers = servers
        self._draw = chance("soak")
        self._faults: Counter[str] = Counter()
        self._blows: list[dt.datetime] = []
        self._submitted: list[Run] = []
        self._refused = 0
        self._folder = folder
        environment = {
            "SYNC_SCHEDULER_NODE_LEASE": "6",
            "SYNC_SCHEDULER_REDIS_URL": servers.redis_proxy.url(servers.redis.url),
            "TEST_DATABASE": "postgres",
            "TEST_DATABASE_URL": servers.postgres_proxy.url(url),
        }
        settings.SYNC_SCHEDULER = {
            name.removeprefix("SYNC_SCHEDULER_"): value if name.endswith("_URL") else float(value)
            for name, value in {**QUICK, **environment}.items()
            if name.startswith("SYNC_SCHEDULER_")
        } | {"REDIS_URL": servers.redis.url}
        call_command("migrate", verbosity=0)
        self._site = Site(folder, environment)
        self._nodes: list[Node] = []

    def close(self) -> None:
        self._site.close()

    def run(self, seconds: float) -> int:
        """Blow for so long, then take stock; the exit code."""
        say(
            f"seed {SEED} (FAULTS_SEED={SEED} makes the same choices again); logs in {self._folder}"
        )
        self._nodes = [self._site.start(*OPTIONS) for _ in range(NODES)]
        self._load()
        self._blow_until(time.monotonic() + min(30.0, seconds / 4), faults=False)
        before = measure(self._nodes[0])
        began = time.monotonic()
        self._blow_until(began + seconds, faults=True)
        say("the storm is over; everything has to come to rest")
        wrong = self._settle()
        after = measure(self._nodes[0])
        self._report(time.monotonic() - began, before, after, wrong)
        return 1 if wrong else 0

    # ------------------------------------------------------------------ the load

    def _load(self) -> None:
        for number in range(SCHEDULES):
            name = f"second-{number:02d}"
            Schedule.objects.register(
                name,
                job=jobs.slot_effect,
                rule=EACH_SECOND,
                overlap="concurrent",
                input={"name": name},
            )
        for overlap in ("skip", "queue"):
            for number in range(GUARDED):
                name = f"{overlap}-{number}"
                path = str(self._folder / name)
                Schedule.objects.register(
                    name, job=jobs.alone, rule=EACH_SECOND, overlap=overlap, input={"path": path}
                )

    def _submit(self) -> None:
        """As a web request would: what was answered must happen, what was refused need not."""
        try:
            self._submitted += jobs.atomic_count.submit_many([{"name": "submitted"}] * BATCH)
        except DatabaseError:
            self._refused += 1
            connections["default"].close()

    def _blow_until(self, end: float, *, faults: bool) -> None:
        next_fault = time.monotonic()
        next_word = time.monotonic() + 60
        while (now := time.monotonic()) < end:
            self._submit()
            self._revive()
            if faults and now >= next_fault:
                self._strike()
                next_fault = time.monotonic() + self._draw.uniform(*PAUSE)
            if now >= next_word:
                say(f"{sum(self._faults.values())} faults, {len(self._submitted)} submits so far")
                next_word = now + 60
            time.sleep(BATCH_SECONDS)

    # ------------------------------------------------------------------ the faults

    def _strike(self) -> None:
        kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "child killed": (3, self._kill_child),
            "node killed": (3, self._kill_node),
            "leader killed": (2, self._kill_leader),
            "node frozen": (3, self._freeze_node),
            "node restarted": (2, self._restart_node),
            "Redis flushed": (2, self._flush_redis),
            "Redis killed": (1, self._kill_redis),
            "PostgreSQL crashed": (0.5, self._crash_postgres),
            "PostgreSQL restarted": (0.5, self._restart_postgres),
            "PostgreSQL cut off": (1, lambda: self._cut(self._servers.postgres_proxy)),
            "PostgreSQL unreachable": (0.5, lambda: self._block(self._servers.postgres_proxy)),
            "PostgreSQL slow": (1, lambda: self._slow(self._servers.postgres_proxy)),
            "Redis cut off": (1, lambda: self._cut(self._servers.redis_proxy)),
            "Redis unreachable": (1, lambda: self._block(self._servers.redis_proxy)),
            "Redis slow": (1, lambda: self._slow(self._servers.redis_proxy)),
        }
        kind = self._draw.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        self._faults[kind] += 1
        kinds[kind][1]()

    def _revive(self) -> None:
        """A node whose start fell into an outage has ended with a sentence; it is started anew."""
        for index, node in enumerate(self._nodes):
            if not node.is_running and not has_started(node):
                self._faults["(start refused)"] += 1
                self._replace(index)

    def _victim(self) -> int:
        return self._draw.randrange(1, NODES)

    def _kill_child(self) -> None:
        children = self._draw.choice(self._nodes).children()
        if children:
            with suppress(psutil.NoSuchProcess):
                self._draw.choice(children).kill()

    def _kill_node(self) -> None:
        index = self._victim()
        self._note_blow(self._nodes[index])
        self._nodes[index].kill()
        self._replace(index)

    def _kill_leader(self) -> None:
        """Unless it is the veteran: that one is only frozen."""
        with suppress(DatabaseError):
            leader = self._site.leader()
            if leader in self._nodes[1:]:
                self._note_blow(leader)
                leader.kill()
                self._replace(self._nodes.index(leader))
            elif leader is not None:
                self._note_blow(leader)
                self._freeze(leader)

    def _freeze_node(self) -> None:
        node = self._draw.choice(self._nodes)
        self._note_blow(node)
        self._freeze(node)

    def _freeze(self, node: Node) -> None:
        node.freeze()
        try:
            self._wait(self._draw.uniform(*LASTING))
        finally:
            node.thaw()

    def _restart_node(self) -> None:
        index = self._victim()
        if not has_started(self._nodes[index]):
            return  # the signal would simply kill it
        self._nodes[index].signal(signal.SIGTERM)
        if self._nodes[index].process.wait(60) != 0:
            raise AssertionError(f"it did not end well: {self._nodes[index].output()[-2000:]}")
        self._replace(index)

    def _replace(self, index: int) -> None:
        self._nodes[index] = self._site.start(*OPTIONS, wait=False)

    def _flush_redis(self) -> None:
        with redis.Redis(port=self._servers.redis.port) as client:
            client.flushall()

    def _kill_redis(self) -> None:
        self._servers.redis.kill()
        self._wait(self._draw.uniform(*LASTING))
        self._servers.redis.launch()

    def _crash_postgres(self) -> None:
        self._servers.postgres.kill()
        self._servers.postgres.launch()
        connections["default"].close()

    def _restart_postgres(self) -> None:
        self._servers.postgres.stop()
        self._wait(self._draw.uniform(*LASTING), submit=False)
        self._servers.postgres.launch()
        connections["default"].close()

    def _cut(self, proxy: Proxy) -> None:
        proxy.reset_all()

    def _block(self, proxy: Proxy) -> None:
        proxy.behave(black_hole=True)
        self._wait(self._draw.uniform(*LASTING))
        proxy.heal()

    def _slow(self, proxy: Proxy) -> None:
        proxy.behave(delay=0.2)
        self._wait(self._draw.uniform(*LASTING))
        proxy.heal()

    def _wait(self, seconds: float, *, submit: bool = True) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if submit:
                self._submit()
            time.sleep(min(BATCH_SECONDS, max(0.0, end - time.monotonic())))

    def _note_blow(self, node: Node) -> None:
        """When a leader was struck, so that its successor's beginning can be compared."""
        with suppress(DatabaseError):
            if self._site.leader() is node:
                self._blows.append(database_now())

    # ------------------------------------------------------------------ the reckoning

    def _settle(self) -> list[str]:
        """Peace, then rest, then the auditor; what is wrong."""
        self._servers.postgres_proxy.heal()
        self._servers.redis_proxy.heal()
        connections["default"].close()
        self._revive()
        wrong = [
            f"node {node.pid} has ended by itself\n{node.output()[-1500:]}"
            for node in self._nodes
            if not node.is_running
        ]
        if not self._nodes[0].is_running:
            self._nodes[0] = self._site.start(*OPTIONS)
        until = database_now()
        due = Schedule.objects.filter(next_run_at__lte=until)
        wrong += self._within(lambda: not due.exists(), "not everything due was dispatched")
        Schedule.objects.update(enabled=False)
        active = Run.objects.filter(status__in=lifecycle.ACTIVE)
        wrong += self._within(lambda: not active.exists(), "not all runs have ended")
        wrong += self._missing()
        try:
            auditor.examine(self._site)
        except AssertionError as error:
            wrong.append(str(error))
        return wrong

    def _within(self, condition: Callable[[], bool], fault: str) -> list[str]:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            if condition():
                return []
            time.sleep(0.2)
        return [f"{fault} within {SETTLE_SECONDS:.0f} s\n{self._site.report()[:3000]}"]

    def _missing(self) -> list[str]:
        """Submits that were answered and are not there."""
        ids = [run.id for run in self._submitted]
        found = sum(
            Run.objects.filter(id__in=ids[i : i + 1000]).count() for i in range(0, len(ids), 1000)
        )
        lost = len(ids) - found
        return [f"{lost} of {len(ids)} answered submits are lost"] if lost else []

    def _takeovers(self) -> list[float]:
        """From each blow at a leader until the next term; blows that it survived do not count."""
        starts = sorted(Term.objects.values_list("started_at", flat=True))
        found = []
        for blow, following in zip(self._blows, [*self._blows[1:], database_now()], strict=True):
            later = [start for start in starts if blow < start <= following]
            found += [(start - blow).total_seconds() for start in later[:1]]
        return found

    def _report(self, seconds: float, before: Size, after: Size, wrong: list[str]) -> None:
        slots = Run.objects.filter(trigger="slot")
        takeovers = self._takeovers()
        counts = {name: len(invariants.CHECKS[name](self._site.ledger_path)) for name in _HARD}
        say(f"\n{seconds / 60:.1f} minutes, seed {SEED}")
        say(f"slots: {slots.count()}, of them skipped {slots.filter(status='skipped').count()}")
        say(f"runs: {Run.objects.count()}; attempts: {Attempt.objects.count()}")
        say(f"submits answered: {len(self._submitted)}; refused: {self._refused} batches")
        say(f"statuses: {dict(Counter(Run.objects.values_list('status', flat=True)))}")
        say(f"attempts: {dict(Counter(Attempt.objects.values_list('outcome', flat=True)))}")
        for kind, number in self._faults.most_common():
            say(f"  {number:5} {kind}")
        say(f"terms: {Term.objects.count()}")
        if takeovers:
            middle, longest = statistics.median(takeovers), max(takeovers)
            say(f"take-over after {len(takeovers)} blows: p50 {middle:.2f} s, max {longest:.2f} s")
        for name, what in _HARD.items():
            say(f"{what}: {counts[name]}")
        say(
            f"veteran: RSS {before.memory >> 20} -> {after.memory >> 20} MB,"
            f" descriptors {before.files} -> {after.files}"
        )
        say(
            "\n".join(["BROKEN", *(one[:2000] for one in wrong)]) if wrong else "All promises kept."
        )


_HARD = {
    "I1": "schedules that lost slots",
    "I2": "slots run twice",
    "I4": "runs with more or fewer effects than one",
    "I5": "runs entered without an attempt",
    "I6": "overlaps",
    "I7": "writes of superseded terms",
}


def has_started(node: Node) -> bool:
    return "started (" in node.output()


def measure(node: Node) -> Size:
    parent = psutil.Process(node.pid)
    family = [parent, *parent.children(recursive=True)]
    return Size(
        memory=sum(process.memory_info().rss for process in family),
        files=sum(process.num_fds() for process in family),
    )


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # a report is what this is for
