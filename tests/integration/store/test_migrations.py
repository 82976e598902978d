"""The migrations make the same promises on every database."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader

from sync_scheduler import clock
from sync_scheduler.models import Run
from sync_scheduler.models.indexes import PartialIndex


def make_run(**values: object) -> Run:
    now = clock.now()
    return Run.objects.create(job="tests.noop", run_at=now, submitted_at=now, **values)


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    call_command("makemigrations", "sync_scheduler", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_the_database_itself_refuses_a_second_running_run_of_a_guarded_schedule() -> None:
    # A11
    make_run(guard=7, status="running")
    make_run(guard=7, status="submitted")
    with pytest.raises(IntegrityError):
        make_run(guard=7, status="running")


@pytest.mark.django_db
def test_runs_without_a_guard_run_side_by_side() -> None:
    make_run(status="running")
    make_run(status="running")
    assert Run.objects.filter(status="running").count() == 2


@pytest.mark.django_db
def test_ids_of_runs_sort_in_the_order_of_their_making() -> None:
    made = [make_run().id for _ in range(50)]
    assert sorted(made) == made
    assert {run_id.version for run_id in made} == {7}


@pytest.mark.django_db
def test_every_named_index_exists() -> None:
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Run._meta.db_table)
    named = {
        index.name
        for index in Run._meta.indexes
        if not isinstance(index, PartialIndex) or index.exists_on(connection)
    }
    assert named <= set(found)


def test_a_later_migration_only_adds() -> None:
    # H-3: the code of the release before goes on working while the new one is rolled out
    loader = MigrationLoader(None)
    additions = (
        operations.AddConstraint,
        operations.AddField,
        operations.AddIndex,
        operations.AlterModelManagers,
        operations.AlterModelOptions,
        operations.CreateModel,
    )
    taken_away = [
        f"{name}: {operation.describe()}"
        for (app, name), migration in loader.disk_migrations.items()
        if app == "sync_scheduler" and name != "0001_initial"
        for operation in migration.operations
        if not isinstance(operation, additions)
    ]
    assert ("sync_scheduler", "0001_initial") in loader.disk_migrations
    assert not taken_away


@pytest.mark.django_db(transaction=True)
def test_every_index_can_be_taken_away_and_made_again() -> None:
    # C8: also one that a database does without
    for index in Run._meta.indexes:
        if getattr(index, "generated", None) is not None:
            continue  # on MySQL it is a column too
        with connection.schema_editor() as editor:
            editor.remove_index(Run, index)
            editor.add_index(Run, index)
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Run._meta.db_table)
    assert {"run_ready", "run_waiting"} <= set(found)
    assert ("run_parked" in found) == connection.features.supports_partial_indexes


@pytest.mark.django_db(transaction=True)
def test_everything_can_be_taken_away_and_made_again() -> None:
    # C8
    try:
        for target in ("0001", "zero"):
            call_command("migrate", "sync_scheduler", target, verbosity=0)
        left = connection.introspection.table_names()
    finally:
        call_command("migrate", verbosity=0)
    assert not [name for name in left if name.startswith("sync_scheduler_")]
    make_run(guard=7, status="running")
    with pytest.raises(IntegrityError):
        make_run(guard=7, status="running")
