"""What the page on guarantees names is there."""

from __future__ import annotations

import re

import pytest

from tests.architecture.package import ROOT
from tests.mutation.mutations import MUTATIONS

PAGE = (ROOT / "docs" / "explanation" / "delivery-guarantees.md").read_text(encoding="utf-8")
DATABASES = {"SQLite": "sqlite", "PostgreSQL": "postgres", "MariaDB": "mysql"}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_test_that_the_page_names_exists() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    known = {name for text in sources for name in re.findall(r"^def (test_\w+)", text, re.M)}
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert not named - known


@pytest.mark.parametrize("row", rows(section("Promises")), ids=lambda row: str(row[0]))
def test_every_promise_names_what_keeps_it_and_what_proves_it(row: list[str]) -> None:
    promise, kept, proved = row
    assert promise and kept
    assert "`test_" in proved


def test_the_table_of_safeguards_is_what_is_taken_away() -> None:
    """In the same order; their names may be put better there."""
    told = rows(section("Taking the safeguards away"))
    assert len(told) == len(MUTATIONS)
    for (name, databases, noticed), mutation in zip(told, MUTATIONS, strict=True):
        where = f"{name} / {mutation.name}"
        assert [DATABASES[one] for one in databases.split(", ")] == list(mutation.databases), where
        tests = {test.rpartition("::")[2] for test in mutation.tests}
        assert noticed.strip("`") in tests, where
