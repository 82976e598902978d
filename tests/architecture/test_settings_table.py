"""The documentation lists every setting with its default, and no other."""

from __future__ import annotations

import ast
import dataclasses
import re

from sync_scheduler.conf import Settings
from tests.architecture.package import ROOT

ROW = re.compile(r"^\| `([A-Z][A-Z_]*)` \| `(.+?)` \|")


def test_the_settings_page_lists_each_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    rows = [match.groups() for line in page.splitlines() if (match := ROW.match(line))]
    documented = {name: ast.literal_eval(default) for name, default in rows}
    defaults = Settings()
    in_force = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(Settings)}
    assert len(rows) == len(documented), "a setting stands in the tables twice"
    assert documented == in_force
