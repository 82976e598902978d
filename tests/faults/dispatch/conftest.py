"""What tests of dispatching under faults share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import redis_server
from tests.services.plugin import provide
from tests.services.server import Server


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """A Redis server that the test may stop, freeze and flush."""
    with provide("redis", redis_server.start) as server:
        yield server
