"""Which database the demo uses: as a newcomer on SQLite, by DATABASE_URL on the others."""

from __future__ import annotations

import os

import pytest

from tests.services import mariadb_server, postgres_server


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of the kind that this run is about; empty text: the demo's own file."""
    kind = os.environ["TEST_DATABASE"]
    if kind == "postgres":
        return postgres_server.fresh_database(request.getfixturevalue("postgres_server"))
    if kind == "mysql":
        return mariadb_server.fresh_database(request.getfixturevalue("mariadb_server"))
    return ""
