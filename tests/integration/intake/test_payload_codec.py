"""Payloads at rest: with PAYLOAD_CODEC no column holds them in plain, and all else is as before."""

from __future__ import annotations

import datetime as dt
import subprocess
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from sync_scheduler import InvalidInput, KeyConflict, clock, cron, signals
from sync_scheduler.dispatch.tick import tick
from sync_scheduler.errors import PayloadCodecError
from sync_scheduler.intake.declared import drift
from sync_scheduler.jobs import payload
from sync_scheduler.lifecycle import State
from sync_scheduler.models import Run, Schedule, Step
from sync_scheduler.store import claims, outcomes
from sync_scheduler.store.reports import runs as reports
from tests.integration.commands.shell import PYTHON, environment
from tests.integration.dispatch.leading import lead
from tests.testapp import codecs, jobs

pytestmark = pytest.mark.django_db(transaction=True)

CANARY = "canary-4711"
TOY = f"{codecs.__name__}.Toy"
OTHER = f"{codecs.__name__}.OtherKey"


def use(settings: Settings, codec: str | None) -> None:
    settings.SYNC_SCHEDULER = {"PAYLOAD_CODEC": codec, "ADMIN_JOBS": ["tests.*"]}


@pytest.fixture(autouse=True)
def _with_codec(settings: Settings) -> None:
    use(settings, TOY)


def at_rest() -> str:
    """Everything that the tables hold, as text."""
    tables = ("run", "step", "schedule", "attempt", "event", "deadletter")
    with connection.cursor() as cursor:
        found = []
        for table in tables:
            cursor.execute(f"SELECT * FROM sync_scheduler_{table}")
            found.append(str(cursor.fetchall()))
    return "\n".join(found)


def work(codec: str | None = TOY) -> None:
    """Let a real worker with a real child process do all that is ready."""
    command = [PYTHON, "-m", "django", "runscheduler", "--no-dispatch", "--drain", "--processes=1"]
    chosen = {} if codec is None else {"SYNC_SCHEDULER_PAYLOAD_CODEC": codec}
    done = subprocess.run(
        command, env=environment() | chosen, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def fresh(run: Run) -> Run:
    return Run.objects.get(id=run.id)


def test_input_steps_and_result_make_the_round_trip_and_are_never_plain_at_rest() -> None:  # S13
    one = jobs.confide.submit(secret=CANARY)
    atomic = jobs.atomic_confide.submit(secret=CANARY)
    many = jobs.echo.submit_many([{"value": CANARY}, {"value": [CANARY, 1]}, {}])
    assert CANARY not in at_rest()

    work()

    assert CANARY not in at_rest()
    assert (fresh(one).input, fresh(one).attempt) == ({"secret": CANARY}, 2)
    assert one.join(1).result == {"told": f"kept {CANARY}"}
    assert Step.objects.get(run_id=one.id).result == f"kept {CANARY}"
    assert fresh(atomic).result == f"told {CANARY}"
    assert [fresh(run).result for run in many] == [CANARY, [CANARY, 1], None]


def test_rows_from_before_the_codec_are_read_and_run(settings: Settings) -> None:  # S13
    use(settings, None)
    old = jobs.echo.submit(value=CANARY)
    schedule = Schedule.objects.register(
        "old", job=jobs.echo, rule=cron("* * * * *"), input={"value": CANARY}
    ).schedule
    assert CANARY in at_rest()
    use(settings, TOY)
    assert fresh(old).input["value"] == CANARY

    work()

    assert fresh(old).result == CANARY
    run = Schedule.objects.get(pk=schedule.pk).trigger_now()
    assert fresh(run).input["value"] == CANARY


def test_a_slot_of_a_schedule_from_before_the_codec_is_stored_encoded(settings: Settings) -> None:
    # S13: PostgreSQL copies the input inside one statement
    due = dt.datetime(2031, 5, 6, 7, 0, tzinfo=dt.UTC)
    for name, codec in (("before", None), ("after", TOY)):
        use(settings, codec)
        rule = cron("* * * * *", tz="UTC")
        Schedule.objects.register(name, job=jobs.echo, rule=rule, input={"value": CANARY})
    Schedule.objects.update(next_run_at=due)

    assert tick(lead(), due + dt.timedelta(seconds=5)).dispatched == 2

    with connection.cursor() as cursor:
        cursor.execute("SELECT input FROM sync_scheduler_run")
        assert CANARY not in str(cursor.fetchall())
    assert [run.input["value"] for run in Run.objects.all()] == [CANARY, CANARY]


def test_a_schedule_keeps_its_input_encoded_and_registering_it_again_changes_nothing() -> None:
    # S13, A3
    def register() -> Any:
        return Schedule.objects.register(
            "confiding", job=jobs.echo, rule=cron("0 6 * * *"), input={"value": CANARY}
        )

    assert register().created
    assert CANARY not in at_rest()
    again = register()
    assert (again.created, again.updated) == (False, False)
    schedule = Schedule.objects.get(name="confiding")
    assert schedule.input["value"] == CANARY
    schedule.note = "edited"
    schedule.save()
    assert CANARY not in at_rest()
    assert Schedule.objects.get(name="confiding").input["value"] == CANARY


def test_saving_a_schedule_again_is_enough_to_encode_it_anew(settings: Settings) -> None:  # S13
    use(settings, None)
    rule = cron("0 6 * * *")
    Schedule.objects.register("old", job=jobs.echo, rule=rule, input={"value": CANARY})
    Schedule.objects.register("empty", job=jobs.noop, rule=rule)
    use(settings, TOY)
    (schedule,) = Schedule.objects.exclude(input={})
    schedule.save()
    assert CANARY not in at_rest()
    assert Schedule.objects.get(name="old").version == 1


def test_the_same_key_is_the_same_run_only_with_the_same_plain_input() -> None:  # S13, B5
    first = jobs.echo.using(key="k").submit(value=CANARY)
    assert jobs.echo.using(key="k").submit(value=CANARY).id == first.id
    with pytest.raises(KeyConflict):
        jobs.echo.using(key="k").submit(value="another")


def test_retry_trigger_backfill_and_signals_see_the_plain_input() -> None:  # S13
    seen: list[Any] = []

    def receive(run: Run, **_: object) -> None:
        seen.append(run.input["value"])

    signals.run_submitted.connect(receive)
    try:
        failed = jobs.echo.submit(value=CANARY)
        Run.objects.filter(id=failed.id).update(status="failed", finished_at=clock.now())
        again = failed.retry()
        schedule = Schedule.objects.register(
            "often", job=jobs.echo, rule=cron("0 * * * *", tz="UTC"), input={"value": CANARY}
        ).schedule
        triggered = schedule.trigger_now(key="a")
        assert schedule.trigger_now(key="a").id == triggered.id
        end = clock.now()
        filled = schedule.backfill(end - dt.timedelta(hours=2), end)
        assert schedule.backfill(end - dt.timedelta(hours=2), end) == filled
    finally:
        signals.run_submitted.disconnect(receive)
    assert len(filled) >= 1
    assert {fresh(run).input["value"] for run in (again, triggered, *filled)} == {CANARY}
    assert set(seen) == {CANARY}
    assert CANARY not in at_rest()


# ---------------------------------------------------------------------------- a wrong key


def test_what_cannot_be_decoded_fails_with_one_sentence_and_others_go_on() -> None:  # S13
    lost = jobs.echo.submit(value=CANARY)
    with_context = jobs.confide.submit(secret=CANARY)
    empty = jobs.noop.submit()

    work(OTHER)

    for run in (lost, with_context):
        found = fresh(run)
        assert found.status == "failed"
        assert "The input cannot be decoded by PAYLOAD_CODEC (ValueError)" in found.error
        assert found.input == run.input  # read with the right key again
        for attempt in found.attempts.all():
            assert "another key" not in attempt.traceback.replace("stored with another key", "")
    assert fresh(empty).status == "completed"


def test_a_step_that_cannot_be_decoded_is_not_done_a_second_time(settings: Settings) -> None:
    # S13, B4
    run = jobs.confide.submit(secret="of the new key")
    use(settings, OTHER)
    Run.objects.filter(id=run.id).update(input={"secret": "of the new key"})
    use(settings, TOY)
    Step.objects.create(
        run_id=run.id, name="keep", result="kept", attempt=1, finished_at=clock.now()
    )
    work(OTHER)
    use(settings, OTHER)
    assert "The result of step 'keep' cannot be decoded" in fresh(run).error
    assert payload.is_sealed(Step.objects.get().result)


def test_without_the_codec_an_encoded_value_says_so(settings: Settings) -> None:  # S13
    run = jobs.echo.submit(value=CANARY)
    work(codec=None)
    assert "stored encoded, but PAYLOAD_CODEC is not set" in fresh(run).error
    use(settings, None)
    assert payload.is_sealed(fresh(run).input)


def test_verbs_say_what_they_cannot_decode_and_store_nothing(settings: Settings) -> None:  # S13
    run = jobs.echo.using(key="k").submit(value=CANARY)
    Run.objects.filter(id=run.id).update(status="failed", finished_at=clock.now())
    schedule = Schedule.objects.register(
        "confiding", job=jobs.echo, rule=cron("0 6 * * *"), input={"value": CANARY}
    ).schedule
    use(settings, OTHER)
    with pytest.raises(PayloadCodecError, match="cannot be decoded"):
        jobs.echo.using(key="k").submit(value=CANARY)
    with pytest.raises(InvalidInput, match="could not be decoded here"):
        run.retry()
    with pytest.raises(PayloadCodecError, match="The input of schedule 'confiding'"):
        schedule.trigger_now()
    assert Run.objects.count() == 1
    # What is saved in its envelope is saved as it was.
    kept = Schedule.objects.get(name="confiding")
    assert drift(kept) == {}
    kept.note = "edited"
    kept.save()
    use(settings, TOY)
    assert Schedule.objects.get(name="confiding").input["value"] == CANARY


def test_a_declared_schedule_whose_input_cannot_be_decoded_takes_that_of_the_code(
    settings: Settings,
) -> None:  # S13, A3
    def register() -> Any:
        return Schedule.objects.register(
            "declared",
            job=jobs.echo,
            rule=cron("0 6 * * *"),
            input={"value": CANARY},
            source=Schedule.Source.CODE,
        )

    schedule = register().schedule
    schedule.max_catch_up, schedule.enabled = 7, False
    schedule.save()
    use(settings, OTHER)
    register()
    found = Schedule.objects.get(name="declared")
    assert found.input["value"] == CANARY
    assert (found.max_catch_up, found.enabled) == (7, False)


def test_pages_and_reports_say_that_it_cannot_be_decoded(settings: Settings) -> None:  # S13, S11
    run = jobs.confide.submit(secret=CANARY)
    Run.objects.filter(id=run.id).update(
        status="failed", error=f"ValueError: no such card {CANARY}", result={"told": CANARY}
    )
    plain = jobs.echo.submit(value=CANARY)
    schedule = Schedule.objects.register(
        "confiding", job=jobs.echo, rule=cron("0 6 * * *"), input={"value": CANARY}
    ).schedule
    client = Client()
    client.force_login(User.objects.create_superuser("ops"))

    def page(model: str, pk: object) -> str:
        address = reverse(f"admin:sync_scheduler_{model}_change", args=[pk])
        return str(client.get(address).content.decode())

    assert CANARY in page("run", plain.id)
    use(settings, OTHER)
    for shown in (page("run", run.id), page("run", plain.id), page("schedule", schedule.pk)):
        assert "The stored value cannot be decoded by PAYLOAD_CODEC" in shown
        # The secret stands in the error, and nobody can say any more what it is.
        assert CANARY not in shown
    listed = client.get(reverse("admin:sync_scheduler_run_changelist"))
    assert listed.status_code == 200
    assert CANARY not in listed.content.decode()
    detail = reports.detail(fresh(run))
    assert CANARY not in str(detail)
    assert (detail["input"], detail["error"]) == ({"$encoded": "***"}, "ValueError")


# ---------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("codec", ["Refusing", "Bytes"])
def test_what_cannot_be_encoded_is_not_stored(settings: Settings, codec: str) -> None:  # S13
    use(settings, f"{codecs.__name__}.{codec}")
    with pytest.raises(PayloadCodecError, match="cannot be encoded") as caught:
        jobs.echo.submit(value=CANARY)
    assert CANARY not in str(caught.value)
    with pytest.raises(PayloadCodecError):
        jobs.echo.submit_many([{"value": CANARY}])
    jobs.noop.submit()  # there is nothing to encode
    assert Run.objects.count() == 1


def test_a_result_that_cannot_be_encoded_does_not_keep_the_run_from_completing() -> None:  # S13
    run = jobs.renamed.submit()
    work(f"{codecs.__name__}.Refusing")
    found = fresh(run)
    assert (found.status, found.result) == ("completed", None)
    assert "Result not kept: A value cannot be encoded by PAYLOAD_CODEC" in found.reason


def test_nobody_can_pass_an_envelope_as_input_or_result() -> None:  # S13
    with pytest.raises(InvalidInput, match=r"\$encoded"):
        payload.normalise({"$encoded": "x"}, "The input", 1000)
    assert payload.storable_result({"$encoded": "x"}, 1000)[0] is None
    inside = jobs.echo.submit(value={"$encoded": "x"})
    assert fresh(inside).input["value"] == {"$encoded": "x"}


def test_the_store_takes_sealed_results_in_every_kind_of_batch() -> None:  # S13
    first, second = jobs.noop.submit(), jobs.noop.submit()
    taken = {one.id: one for one in claims.claim([first.id, second.id], "node", ["tests.noop"])}
    sealed = {"$encoded": codecs.Toy().encode(f'"{CANARY}"')}
    now = clock.now()
    endings = [
        outcomes.Ending(
            claim=taken[run.id],
            node="node",
            status=State.COMPLETED,
            outcome="completed",
            started_at=now,
            finished_at=now,
            result=sealed,
            reason=reason,
        )
        for run, reason in ((first, ""), (second, "with a remark"))
    ]
    outcomes.record(endings)
    assert [fresh(first).result, fresh(second).result] == [CANARY, CANARY]
    assert CANARY not in at_rest()
