"""A project may pool its connections; the scheduler's own processes connect by themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.db import connection

from sync_scheduler.models import Run
from tests.integration.commands.shell import PYTHON, environment
from tests.testapp import jobs
from tests.testapp.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_node_works_where_the_project_pools_its_connections(tmp_path: Path) -> None:
    # B11: Django refuses a pool to connections that last, as a child's do, and a small pool
    # has too few for the threads of a node
    if connection.vendor != "postgresql":
        pytest.skip("Django pools connections to PostgreSQL alone")
    (tmp_path / "pooling.py").write_text(
        "from tests.settings import *\n"
        "DATABASES['default']['OPTIONS']['pool'] = {'min_size': 1, 'max_size': 1}\n"
    )
    runs = [jobs.mark.submit(name=name) for name in ("first", "second")]
    done = subprocess.run(
        [PYTHON, "-m", "django", "runscheduler", "--drain", "--processes", "1"],
        env={
            **environment(),
            "DJANGO_SETTINGS_MODULE": "pooling",
            "PYTHONPATH": f"{tmp_path}:{Path.cwd()}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {Run.objects.get(id=run.id).status for run in runs} == {"completed"}
    assert sorted(Effect.objects.values_list("name", flat=True)) == ["first", "second"]
