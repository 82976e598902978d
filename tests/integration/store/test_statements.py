"""Plans that a worker keeps: only where they can be kept, and never at the price of an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from sync_scheduler import clock
from sync_scheduler.models import Run
from sync_scheduler.store import claims, outcomes, statements
from sync_scheduler.store.statements import kept_plans
from tests.integration.store.runs import JOB, make
from tests.services import Server, pgbouncer, postgres_server
from tests.services.plugin import provide

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _keeping(transactional_db: None) -> Generator[None, None, None]:
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL streams")
    connection.close()
    with kept_plans():
        yield
    connection.close()


def claim_one() -> Run:
    run = make()
    (claim,) = claims.claim([run.id], "node", [JOB])
    assert (claim.id, claim.attempt) == (run.id, 1)
    return run


def kept() -> list[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, statement FROM pg_prepared_statements")
        found: list[tuple[str, str]] = cursor.fetchall()
        return found


def test_a_claim_is_planned_once() -> None:
    # C3
    for _ in range(8):
        claim_one()
    assert len([name for name, text in kept() if "token + 1" in text]) == 1


def test_a_plan_from_a_small_table_reads_the_index_of_a_large_one() -> None:
    # B9: a plan that is kept must not become slow when the table has grown
    run = claim_one()
    for _ in range(8):
        claim_one()
    Run.objects.bulk_create(
        [Run(job=JOB, run_at=run.run_at, submitted_at=run.run_at) for _ in range(3000)]
    )
    ((name, _),) = [one for one in kept() if "token + 1" in one[1]]
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (FORMAT JSON) EXECUTE {name}('node', '{run.id}', 'default', '[\"{JOB}\"]')"
        )
        (answer,) = cursor.fetchone()
    plans = json.dumps(json.loads(answer) if isinstance(answer, str) else answer)
    assert "Seq Scan" not in plans


@pytest.mark.parametrize("statement", ["claim", "succeed"])
def test_runs_are_found_by_their_ids_in_a_table_that_is_taken_for_empty(statement: str) -> None:
    # B9: statistics are old when a backlog comes; reading all of it for every claim takes for ever
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE sync_scheduler_run")
    for status in ("submitted", "running"):
        Run.objects.bulk_create(
            Run(job=JOB, status=status, run_at=clock.now(), submitted_at=clock.now())
            for _ in range(500)
        )
    text = {"claim": claims._CLAIM_SQL, "succeed": outcomes._SUCCEED_SQL}[statement]
    given = dict.fromkeys(re.findall(r"%\((\w+)\)s", text), "{}")
    hundred = Run.objects.values_list("id", flat=True)[:100]
    given["ids"] = "{" + ",".join(one.hex for one in hundred) + "}"
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")  # as for every plan that is kept
        cursor.execute("EXPLAIN (FORMAT JSON) " + text, given | {"jobs": "[]"})
        (answer,) = cursor.fetchone()
    (top,) = json.loads(answer) if isinstance(answer, str) else answer
    # Runs that keep others waiting are looked up by another column, and are few.
    found = {index for name, index in _indexes(top["Plan"]) if not name.startswith("busy")}
    assert found == {"sync_scheduler_run_pkey"}


def _indexes(plan: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Under which name a table is read in this plan, and by which index."""
    name = plan.get("Alias", above)
    if "Index Name" in plan:
        yield name, plan["Index Name"]
    for part in plan.get("Plans", ()):
        yield from _indexes(part, name)


def test_a_plan_that_is_gone_costs_no_answer() -> None:
    # B11
    claim_one()
    raw: Any = connection.connection
    raw.pgconn.exec_(b"DEALLOCATE ALL")  # behind the back of the driver, which would notice
    claim_one()
    assert kept() == []
    claim_one()


def test_nothing_is_kept_inside_a_transaction() -> None:
    # B16: a statement that is refused there cannot be repeated
    from django.db import transaction

    with transaction.atomic():
        claim_one()
    assert kept() == []


def test_a_connection_that_ends_before_its_first_plan_raises_what_callers_wait_out() -> None:
    # B11: the driver's own error would end the worker
    run = make()
    connection.ensure_connection()
    raw: Any = connection.connection
    with psycopg.connect(raw.info.dsn, autocommit=True) as other:
        other.execute("SELECT PG_TERMINATE_BACKEND(%s)", [raw.info.backend_pid])
    with pytest.raises(OperationalError):
        claims.claim([run.id], "node", [JOB])
    connection.close()
    assert claims.claim([run.id], "node", [JOB])


def test_nothing_is_kept_behind_a_pooler() -> None:
    # B11: PgBouncer hands every transaction to another session
    upstream: Server
    with (
        provide("postgres", postgres_server.start) as upstream,
        provide("pgbouncer", lambda: pgbouncer.start(upstream)) as pooler,
        psycopg.connect(pooler.url, autocommit=True) as through,
        psycopg.connect(upstream.url, autocommit=True) as direct,
    ):
        assert not statements._look(through)
        assert statements._look(direct)
