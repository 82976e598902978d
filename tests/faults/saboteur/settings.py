"""The settings of a node that has the saboteur aboard."""

from __future__ import annotations

from tests.settings import *  # noqa: F403  # everything is as there, and one app more
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.faults.saboteur"]
