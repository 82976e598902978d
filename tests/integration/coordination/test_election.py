"""The lease in Redis: taken where there is none, extended and given up by its holder alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings

from sync_scheduler.coordination import client, election


@pytest.fixture(autouse=True)
def _with_redis(redis_url: str) -> Iterator[None]:
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": redis_url, "NAMESPACE": "election"}):
        yield


def test_one_of_many_candidates_gets_the_lease() -> None:  # A2
    assert [election.campaign(node, 5) for node in ("a", "b", "c")] == [True, False, False]


def test_the_holder_extends_its_lease() -> None:  # A2
    election.campaign("a", 1)

    assert election.renew("a", 60) == "a"
    assert client.client().pttl(client.keys().leader) > 30_000


def test_nobody_extends_the_lease_of_another() -> None:  # A2
    election.campaign("a", 5)

    assert election.renew("b", 60) == "a"
    assert client.client().pttl(client.keys().leader) <= 5_000


def test_a_lease_that_redis_has_lost_is_taken_up_again() -> None:  # C4
    election.campaign("a", 5)
    client.client().flushall()

    assert election.renew("a", 5) == "a"
    assert election.campaign("b", 5) is False


def test_a_lease_always_ends_by_itself() -> None:  # A2
    election.campaign("a", 5)

    assert 0 < client.client().pttl(client.keys().leader) <= 5_000


def test_only_the_holder_gives_its_lease_up() -> None:  # A2
    election.campaign("a", 5)

    assert election.resign("b") is False
    assert election.resign("a") is True
    assert election.campaign("b", 5) is True


def test_scripts_survive_a_server_that_has_forgotten_them() -> None:  # C4
    election.campaign("a", 5)
    client.client().script_flush()

    assert election.renew("a", 5) == "a"


def test_no_answer_is_never_taken_for_a_lease() -> None:  # A2
    with override_settings(SYNC_SCHEDULER={"REDIS_URL": "redis://127.0.0.1:1/0"}):
        with pytest.raises(redis.exceptions.RedisError):
            election.campaign("a", 5)
        with pytest.raises(redis.exceptions.RedisError):
            election.renew("a", 5)
