"""The auditor itself: whatever breaks a promise, it must see and say."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import uuid
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import OperationalError
from pytest_django import Settings

from sync_scheduler import clock, cron
from sync_scheduler.models import Attempt, Leader, Node, Run, Schedule, Term
from tests.faults import auditor, evidence, invariants, resources
from tests.faults.resources import Survivor
from tests.testapp import jobs
from tests.testapp.models import Effect

pytestmark = pytest.mark.django_db

SECOND = dt.timedelta(seconds=1)
T0 = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)
ATOMIC = "tests.slot_effect"


class Scene:
    """A subject without nodes, whose rows the test writes itself."""

    redis_address: str | None = None

    def __init__(self, folder: Path, *survivors: Survivor) -> None:
        self.folder = folder
        self.excuses: dict[str, str] = {}
        self._survivors = list(survivors)

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger"

    @property
    def database_ports(self) -> set[int]:
        return set()

    def survivors(self) -> list[Survivor]:
        return self._survivors

    def log_files(self) -> list[Path]:
        return []

    def looking(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def ask(name: str, folder: Path) -> list[str]:
    return invariants.CHECKS[name](folder / "ledger")


def run(**values: Any) -> Run:
    facts = {"job": "tests.noop", "status": "completed", "run_at": T0, "submitted_at": T0}
    return Run.objects.create(**{**facts, **values})


def schedule(slots: list[int], last: int, **values: Any) -> Schedule:
    """Of every second, with Runs for these seconds and a watermark."""
    made = Schedule.objects.register(
        "s", job=jobs.noop, rule=cron("* * * * * *", tz="UTC")
    ).schedule
    facts = {"created_at": T0 - SECOND, "last_slot": T0 + last * SECOND, **values}
    Schedule.objects.filter(pk=made.pk).update(**facts)
    for number in slots:
        run(schedule=made, schedule_name="s", trigger="slot", slot=T0 + number * SECOND)
    return made


def test_a_slot_without_a_run_is_lost(tmp_path: Path) -> None:  # I1
    made = schedule([0, 1, 3], last=3)
    (sentence,) = ask("I1", tmp_path)
    assert "s lost 1 slots: 2031-05-06T07:00:02" in sentence
    where = {"from": (T0 + SECOND).isoformat(), "to": (T0 + 2 * SECOND).isoformat()}
    slot = {"slot": T0 + SECOND, "status": "skipped", "meta": where}
    Run.objects.filter(slot=T0 + SECOND).delete()
    run(schedule=made, schedule_name="s", trigger="slot", **slot)
    assert ask("I1", tmp_path) == []


def test_a_watermark_that_passed_without_any_run_lost_everything(tmp_path: Path) -> None:  # I1
    schedule([], last=3)
    (sentence,) = ask("I1", tmp_path)
    assert "s lost 4 slots" in sentence


def test_a_slot_with_two_runs_was_dispatched_twice(tmp_path: Path) -> None:  # I2
    schedule([0, 1, 1], last=1)
    (sentence,) = ask("I2", tmp_path)
    assert "s has 2 runs for 2031-05-06 07:00:01" in sentence


def test_a_slot_that_two_runs_executed_is_seen_when_their_rows_are_gone(
    tmp_path: Path,
) -> None:  # I2
    label = "s@2031-05-06T07:00:00"
    lines = [f"start {label} {uuid.uuid4()} 1\n" for _ in range(2)]
    (tmp_path / "ledger").write_text("".join(lines[:1] * 2))
    assert ask("I2", tmp_path) == []
    (tmp_path / "ledger").write_text("".join(lines))
    (sentence,) = ask("I2", tmp_path)
    assert label in sentence


@pytest.mark.parametrize(
    ("status", "effects", "is_right"),
    [
        *(("completed", 1, True), ("completed", 0, False), ("completed", 2, False)),
        *(("failed", 0, True), ("failed", 1, False)),
    ],
)
def test_a_completed_atomic_run_has_one_effect_and_no_other_has_any(
    tmp_path: Path, status: str, effects: int, *, is_right: bool
) -> None:  # I4
    one = run(job=ATOMIC, status=status, finished_at=T0)
    for _ in range(effects):
        Effect.objects.create(name="s", run=str(one.id))
    assert (ask("I4", tmp_path) == []) == is_right


def test_a_start_without_an_attempt_is_one_too_many(tmp_path: Path) -> None:  # I5
    one = run()
    Attempt.objects.create(
        run=one, number=1, node="n", started_at=T0, finished_at=T0, outcome="completed"
    )
    line = f"start s {one.id} 1\n"
    (tmp_path / "ledger").write_text(line)
    assert ask("I5", tmp_path) == []
    (tmp_path / "ledger").write_text(line * 2)
    (sentence,) = ask("I5", tmp_path)
    assert "entered 2 times in 1 attempts" in sentence


@pytest.mark.parametrize(("outcome", "is_seen"), [("completed", True), ("lost", False)])
def test_runs_of_a_guarded_schedule_that_overlap_are_seen(
    tmp_path: Path, outcome: str, *, is_seen: bool
) -> None:  # I6
    for number in range(2):
        began = T0 + number * SECOND
        span = {"started_at": began, "finished_at": began + 2 * SECOND}
        how = outcome if number == 0 else "completed"
        Attempt.objects.create(run=run(guard=7), number=1, node="n", outcome=how, **span)
    assert bool(ask("I6", tmp_path)) == is_seen


def test_a_run_of_a_term_that_was_over_is_seen(tmp_path: Path) -> None:  # I7
    for epoch in (1, 2):
        Term.objects.create(epoch=epoch, holder="n", started_at=T0 + 10 * epoch * SECOND)
    run(epoch=1, submitted_at=T0 + 19 * SECOND)
    assert ask("I7", tmp_path) == []
    late = run(epoch=1, submitted_at=T0 + 22 * SECOND)
    (sentence,) = ask("I7", tmp_path)
    assert f"run {late.id} was stored 0:00:02 after its term 1" in sentence


def test_an_epoch_that_shrinks_is_seen(tmp_path: Path) -> None:  # I7
    Term.objects.create(epoch=2, holder="n", started_at=T0)
    Term.objects.create(epoch=3, holder="n", started_at=T0 - SECOND)
    Leader.objects.create(namespace="default", epoch=1)
    assert len(ask("I7", tmp_path)) == 2


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(ask: Any, seconds: float = 0.0) -> Any:
        return ask()

    monkeypatch.setattr(auditor, "_eventually", at_once)


def me(**values: Any) -> Survivor:
    return Survivor(**{"pid": os.getpid(), "works": True, "dispatches": True, **values})


@pytest.mark.usefixtures("_impatient")
def test_what_is_left_over_is_named_and_kept_and_may_be_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # I3
    monkeypatch.setenv("FAULTS_EVIDENCE", str(tmp_path))
    long_ago = clock.now() - 60 * SECOND
    Node.objects.create(name="gone", host="h", pid=1, started_at=T0, heartbeat_at=T0, stopped_at=T0)
    run(status="running", node="gone", run_at=long_ago)
    made = schedule([], last=0, last_slot=None)
    Schedule.objects.filter(pk=made.pk).update(next_run_at=long_ago)
    scene = Scene(tmp_path, me(descriptors=10_000))
    with pytest.raises(AssertionError) as found:
        auditor.examine(scene)
    said = str(found.value)
    assert "I3: 1 runs are held by nodes that have left" in said
    assert "I3: 1 runs have not ended" in said
    assert "I3: 1 schedules are due and not dispatched" in said
    (note,) = found.value.__notes__
    (kept,) = (tmp_path / "sync-scheduler-faults").iterdir()
    assert str(kept) in note and "FAULTS_SEED=" in note
    assert {"why.txt", "run.jsonl", "stories.txt"} <= {one.name for one in kept.iterdir()}
    scene.excuses["I3"] = "of this test"
    auditor.examine(scene)


def test_whoever_enters_is_examined_and_whoever_left_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(auditor, "examine", seen.append)
    monkeypatch.setattr(auditor, "_open", [])
    scene = Scene(tmp_path)
    auditor.enter(scene)
    auditor.examine_all()
    auditor.leave(scene)
    auditor.examine_all()
    assert seen == [scene]


@pytest.mark.parametrize(("more", "is_seen"), [(0, False), (1000, True)])
def test_files_that_stay_open_are_a_leak(more: int, *, is_seen: bool) -> None:  # I8
    now = resources.descriptors(os.getpid())
    assert now is not None
    said = resources.nothing_leaks([me(descriptors=now - more)], set())
    assert bool([sentence for sentence in said if "descriptors open" in sentence]) == is_seen


def test_ids_beyond_the_runs_that_wait_are_a_leak(settings: Settings, redis_url: str) -> None:
    # I8
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    run(status="submitted")
    with redis.Redis.from_url(redis_url) as server:
        server.sadd("sync_scheduler:{default}:queues", "default")
        server.zadd("sync_scheduler:{default}:ready:default", {"ab" * 16: 1})
        assert resources.queues_are_bounded(redis_url) == []
        server.zadd("sync_scheduler:{default}:ready:default", {"cd" * 16: 1})
    assert resources.queues_are_bounded(redis_url) == ["Redis holds 2 ids for 1 runs"]


def test_evidence_of_a_failure_tells_the_story_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS_EVIDENCE", str(tmp_path))
    one = run(status="running", node="n", attempt=2, token=2)
    Attempt.objects.create(
        run=one, number=1, node="n", started_at=T0, finished_at=T0, outcome="lost"
    )
    ledger = tmp_path / "ledger"
    ledger.write_text(f"start s {one.id} 1 4711 {T0.timestamp()}\n")
    evidence.keep(ledger, [], f"run {one.id} is at fault")
    (story,) = tmp_path.glob("sync-scheduler-faults/*/stories.txt")
    text = story.read_text()
    for word in (f"run {one.id}", "attempt 1 on n ended: lost", "in process 4711", "running"):
        assert word in text


def test_evidence_of_a_database_that_is_away_are_the_logs_and_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS_EVIDENCE", str(tmp_path))

    def away(*arguments: object) -> None:
        raise OperationalError("the server has gone away")

    monkeypatch.setattr(evidence, "_dump", away)
    scene = Scene(tmp_path)
    log, run_id = tmp_path / "node-0.log", uuid.uuid4()
    log.write_text("the database cannot be used")
    scene.ledger_path.write_text(f"start s {run_id} 1 4711 {T0.timestamp()}\n")
    monkeypatch.setattr(scene, "log_files", lambda: [log])
    failure = AssertionError("it did not come back")
    auditor.keep(scene, failure)
    (note,) = failure.__notes__
    (kept,) = (tmp_path / "sync-scheduler-faults").iterdir()
    assert str(kept) in note
    assert "has gone away" in (kept / "not-kept.txt").read_text()
    assert (kept / log.name).read_text() == log.read_text()
    assert str(run_id) in (kept / "ledger.txt").read_text()
    assert str(run_id) in (kept / "stories.txt").read_text()
