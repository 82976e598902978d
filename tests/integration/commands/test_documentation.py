"""The pages of the documentation list what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sync_scheduler import urls
from sync_scheduler.management.commands.scheduler import ACTIONS

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"


def test_every_action_is_documented_and_no_other() -> None:
    # D3
    page = (REFERENCE / "commands.md").read_text().partition("## scheduler\n")[2]
    rows = re.findall(r"^\| `([a-z-]+)(?: [^`]*)?` \|", page.partition("**Names")[0], re.MULTILINE)
    assert sorted(rows) == sorted(ACTIONS)


def test_every_address_is_documented_and_no_other() -> None:
    # D2
    page = (REFERENCE / "http.md").read_text()
    rows = re.findall(r"^\| `(?:GET|POST) ([^`]+)` \|", page, re.MULTILINE)
    served = [
        re.sub(r"<\w+:(\w+)>", r"<\1>", str(one.pattern)).replace("<run_id>", "<id>")
        for one in urls.urlpatterns
    ]
    assert sorted(rows) == sorted(served)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name
)
def test_every_sample_of_python_is_python(page: Path) -> None:
    for sample in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        compile(sample, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
