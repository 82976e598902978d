"""A Redis that a test may freeze."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.services import Server, redis_server
from tests.services.plugin import provide


@pytest.fixture
def _own_redis() -> Generator[Server, None, None]:
    with provide("redis", redis_server.start) as server:
        yield server


@pytest.fixture
def own_redis_url(_own_redis: Server) -> str:
    return _own_redis.url


@pytest.fixture
def freeze(_own_redis: Server) -> Generator[Callable[[], None], None, None]:
    yield _own_redis.pause
    _own_redis.resume()
