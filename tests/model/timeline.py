"""The only clock of a model run: it stands still until a rule moves it, the database's too."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection

from sync_scheduler import clock

BEGIN = dt.datetime(2030, 1, 7, 12, 0, tzinfo=dt.UTC)


class Timeline:
    """Wall clock (shared with the database) and boot clock, which only ever grows."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.boot = 1000.0
        self._nanoseconds = int(BEGIN.timestamp()) * 10**9

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(clock, "now", lambda: self.now)
        patch.setattr(clock, "boot_seconds", lambda: self.boot)
        patch.setattr(clock, "monotonic", lambda: self.boot)
        patch.setattr(clock, "unix_nanoseconds", self._next_nanoseconds)
        self._prepare_database()
        self._tell_database()

    def pass_by(self, seconds: float) -> None:
        self.boot += seconds
        self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Somebody sets the clocks; no time passes."""
        self.now += dt.timedelta(seconds=seconds)
        self._tell_database()

    def _next_nanoseconds(self) -> int:
        # Ids sort in the order of their making, so that a run can be repeated step by step.
        self._nanoseconds += 1_000_000
        return self._nanoseconds

    def _prepare_database(self) -> None:
        """PostgreSQL finds this function before its own; all of it is rolled back in the end."""
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "CREATE SCHEMA model_clock;"
                    " CREATE FUNCTION model_clock.clock_timestamp() RETURNS timestamptz"
                    " LANGUAGE sql VOLATILE AS"
                    " $$ SELECT current_setting('model_clock.now')::timestamptz $$;"
                    " SET LOCAL search_path TO model_clock, pg_catalog, public"
                )

    def _tell_database(self) -> None:
        statement = {
            "postgresql": "SELECT set_config('model_clock.now', %s, false)",
            "mysql": "SET @@timestamp = %s",
        }.get(connection.vendor)
        if statement is not None:
            is_postgres = connection.vendor == "postgresql"
            value = self.now.isoformat() if is_postgres else self.now.timestamp()
            with connection.cursor() as cursor:
                cursor.execute(statement, [value])

    @staticmethod
    def release_database() -> None:
        if connection.vendor == "mysql":
            with connection.cursor() as cursor:
                cursor.execute("SET @@timestamp = DEFAULT")
