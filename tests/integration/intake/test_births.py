"""The statements that store Runs: few, short, and the same for every Run of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from sync_scheduler import KeyConflict, every, job
from sync_scheduler.coordination import local
from sync_scheduler.jobs import registry
from sync_scheduler.models import Run, Schedule
from tests.testapp import jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def preparing() -> Iterator[None]:
    """A connection whose owner says that statements may be prepared on it."""
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL's driver prepares statements")
    before = deepcopy(connection.settings_dict["OPTIONS"])
    connection.close()
    connection.settings_dict["OPTIONS"] |= {"server_side_binding": True, "prepare_threshold": 1}
    yield
    connection.close()
    connection.settings_dict["OPTIONS"] = before


def statements(captured: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in captured.captured_queries]


def test_a_plain_submit_is_one_statement_without_a_transaction_of_its_own() -> None:
    # B1
    jobs.noop.submit()
    with CaptureQueriesContext(connection) as captured:
        jobs.noop.submit()
        jobs.add.using(priority=3, delay=5, meta={"a": 1}).submit(a=1, b=2)
    assert len(statements(captured)) == 2
    assert all(one.startswith("INSERT INTO") for one in statements(captured))


def test_what_is_stored_is_what_the_caller_was_given() -> None:
    # B1
    given = [
        jobs.noop.submit(),
        jobs.add.using(key="k", priority=3, queue="q", timeout=1.5, meta={"é": ["'", '"', "%s"]})
        .submit(a=1, b=2),
        *jobs.echo.using(priority=-7, meta={"n": 1}).submit_many(
            [{"value": "it's 100 %s"}, {"value": {"\\": ["ü", None, 1.5, {}]}}, {}]
        ),
    ]  # fmt: skip
    for run in given:
        stored = Run.objects.get(id=run.id)
        for field in Run._meta.concrete_fields:
            assert getattr(run, field.attname) == getattr(stored, field.attname), field.attname
        assert (run._state.adding, run._state.db) == (False, "default")


@pytest.mark.parametrize("value", [1e16, -1e23, 1.2345678901234568e18, 1.7e308, 5e-324])
def test_a_float_is_the_same_float_wherever_it_is_stored(value: float) -> None:
    # B3, B5: PostgreSQL takes 1e+16 for a whole number and gives back another one than was stored
    run = jobs.echo.using(key="k", meta={"m": value}).submit(value=value)
    (many,) = jobs.echo.submit_many([{"value": value}])
    schedule = Schedule.objects.register(
        "s", job=jobs.echo, rule=every(hours=1), input={"value": value}
    ).schedule
    triggered = schedule.trigger_now()
    for one in (run, many, triggered):
        stored = Run.objects.get(id=one.id).input["value"]
        assert (type(stored), stored) == (float, value)
    assert jobs.echo.using(key="k").submit(value=value).id == run.id
    assert run.cancel()
    assert run.retry().input == {"value": value}


def test_runs_of_one_call_are_in_the_order_of_their_inputs_and_share_nothing() -> None:
    # B1
    runs = jobs.echo.using(meta={"tags": []}).submit_many({"value": n} for n in range(300))
    assert [run.id for run in runs] == sorted(run.id for run in runs)
    assert len({run.id for run in runs}) == 300
    runs[0].meta["tags"].append("mine")
    assert runs[1].meta == {"tags": []}


def test_a_limit_may_be_read_from_any_input_by_a_function() -> None:
    # B15
    @job(name="tests.births.by_tenant", concurrency=1, concurrency_key=lambda i: i["tenant"])
    def by_tenant(tenant: str) -> None: ...

    try:
        runs = by_tenant.submit_many([{"tenant": "one"}, {"tenant": "two"}])
    finally:
        registry.remove("tests.births.by_tenant")
    gates = Run.objects.order_by("id").values_list("gate", flat=True)
    assert list(gates) == ["tests.births.by_tenant:one", "tests.births.by_tenant:two"]
    assert [run.gate for run in runs] == list(gates)


@pytest.mark.usefixtures("preparing")
def test_a_connection_that_prepares_statements_prepares_the_submit() -> None:
    # B1
    runs: list[Any] = [jobs.add.submit(a=n, b=2) for n in range(5)]
    runs += [jobs.add.using(key=f"key {n}").submit(a=n, b=2) for n in range(5)]
    runs += jobs.add.submit_many({"a": n, "b": 2} for n in range(5))
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        prepared = [row[0] for row in cursor.fetchall() if "INSERT" in row[0]]
    assert len(prepared) == 2  # with a key and without; the same for every input
    assert [Run.objects.get(id=run.id).input["a"] for run in runs] == [*range(5)] * 3
    with pytest.raises(KeyConflict):
        jobs.add.using(key="key 1").submit(a=7, b=2)


@pytest.fixture
def fresh() -> Iterator[None]:
    """An ordinary connection that has not been used yet."""
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL's driver prepares statements")
    connection.close()
    yield
    connection.close()


def asked(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] for row in cursor.fetchall()]


KEPT = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'"


@pytest.mark.usefixtures("fresh")
def test_a_connection_that_lasts_keeps_the_plan_of_the_submit_and_stays_as_it_was() -> None:
    # B1
    jobs.noop.submit()
    assert asked(KEPT) == []
    runs = [jobs.add.submit(a=n, b=2) for n in range(10)]
    keyed = [jobs.noop.using(key="one").submit() for _ in range(5)]
    assert len(asked(KEPT)) == 2  # with a key and without
    assert [Run.objects.get(id=run.id).input["a"] for run in runs] == list(range(10))
    assert len({run.id for run in keyed}) == 1
    assert asked("SHOW enable_seqscan") == ["on"]


@pytest.mark.usefixtures("fresh")
def test_a_submit_outlives_its_plan_and_its_connection() -> None:
    # B11
    for _ in range(10):
        jobs.noop.submit()
    raw: Any = connection.connection
    raw.pgconn.exec_(b"DEALLOCATE ALL")  # behind the back of the driver, which would notice
    jobs.noop.submit()
    assert Run.objects.count() == 11
    assert asked(KEPT) == []
    connection.close()
    for _ in range(10):
        jobs.noop.submit()
    raw = connection.connection
    with psycopg.connect(raw.info.dsn, autocommit=True) as other:
        other.execute("SELECT PG_TERMINATE_BACKEND(%s)", [raw.info.backend_pid])
    with pytest.raises(OperationalError):
        jobs.noop.submit()
    connection.close()
    jobs.noop.submit()
    assert Run.objects.count() == 22


@pytest.mark.usefixtures("fresh")
def test_nothing_is_prepared_inside_a_transaction_or_past_whoever_looks_at_statements() -> None:
    # B16: what is refused there ends the caller's transaction
    with transaction.atomic():
        for _ in range(10):
            jobs.noop.submit()
    seen: list[str] = []

    def look(execute: Any, sql: str, *given: Any) -> Any:
        seen.append(sql)
        return execute(sql, *given)

    with connection.execute_wrapper(look), CaptureQueriesContext(connection) as captured:
        for _ in range(10):
            jobs.noop.submit()
    assert len(seen) == len(statements(captured)) == 10
    assert asked(KEPT) == []


@pytest.mark.parametrize("is_inside", [False, True])
def test_nothing_that_goes_wrong_in_telling_reaches_who_has_committed(is_inside: bool) -> None:
    # A9, B11
    def broken() -> None:
        raise RuntimeError("a listener of this process")

    stop = local.listen(broken)
    try:
        if is_inside:
            with transaction.atomic():
                run = jobs.noop.submit()
        else:
            run = jobs.noop.submit()
        jobs.noop.submit_many([{}, {}])
    finally:
        stop()
    assert Run.objects.filter(id=run.id).exists()
    assert Run.objects.count() == 3
