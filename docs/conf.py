"""How the documentation is built: `sphinx-build -W -n -b html docs docs/_build/html`."""

import tomllib
from pathlib import Path

_project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

project = "sync_scheduler"
author = "sync_scheduler contributors"
copyright = "sync_scheduler contributors"
release = version = _project["version"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
# A link from one page to a heading of another one must be a heading that exists.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

html_theme = "furo"
html_title = "sync_scheduler"
html_static_path = ["_static"]
