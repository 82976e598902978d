"""Settings: where they come from, and what is said about wrong ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from sync_scheduler import conf
from sync_scheduler.errors import InvalidSetting


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    conf._read.cache_clear()
    yield
    conf._read.cache_clear()


def test_settings_win_over_the_environment_which_wins_over_the_default(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    settings.SYNC_SCHEDULER = {}
    assert conf.get().LEADER_LEASE == 5.0
    monkeypatch.setenv("SYNC_SCHEDULER_LEADER_LEASE", "2")
    settings.SYNC_SCHEDULER = {}
    assert conf.get().LEADER_LEASE == 2.0
    settings.SYNC_SCHEDULER = {"LEADER_LEASE": 3}
    assert conf.get().LEADER_LEASE == 3.0


def test_the_environment_is_read_by_the_type_of_each_setting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    for name, value in {
        "REDIS_URL": "redis://localhost:1/0",
        "STRICT_JOBS": "off",
        "THREADS": "9",
        "QUEUES": "a,b",
        "NODE_LEASE": "12.5",
        "QUEUE_QUOTAS": "imports=10000, *=50",
    }.items():
        monkeypatch.setenv(f"SYNC_SCHEDULER_{name}", value)
    settings.SYNC_SCHEDULER = {}
    found = conf.get()
    assert found.REDIS_URL == "redis://localhost:1/0"
    assert found.STRICT_JOBS is False
    assert found.QUEUE_QUOTAS == {"imports": 10_000, "*": 50}
    assert (found.THREADS, found.QUEUES, found.NODE_LEASE) == (9, ("a", "b"), 12.5)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("1", True), ("TRUE", True), (" yes ", True), ("on", True)]
    + [("0", False), ("False", False), ("no", False), ("off", False)]
    + [(word, None) for word in ("ture", "enabled", "none", "2", "")],
)
def test_a_word_that_is_neither_yes_nor_no_is_not_taken_for_no(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, word: str, meant: bool | None
) -> None:
    # C7
    monkeypatch.setenv("SYNC_SCHEDULER_STRICT_JOBS", word)
    settings.SYNC_SCHEDULER = {}
    if meant is None:
        said = "The environment variable SYNC_SCHEDULER_STRICT_JOBS must be True or False."
        assert conf.faults() == [said]
    else:
        assert conf.get().STRICT_JOBS is meant


def test_a_misspelt_variable_is_a_fault_and_the_near_name_is_offered(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    monkeypatch.setenv("SYNC_SCHEDULER_LEADER_LEESE", "2")
    monkeypatch.setenv("SYNC_SCHEDULER_ABRACADABRA", "1")
    settings.SYNC_SCHEDULER = {"TREADS": 2}
    assert conf.faults() == [
        "SYNC_SCHEDULER has no setting 'TREADS'; did you mean THREADS?",
        "The environment variable SYNC_SCHEDULER_ABRACADABRA is no setting;"
        " remove it or mend its spelling.",
        "The environment variable SYNC_SCHEDULER_LEADER_LEESE is no setting;"
        " did you mean LEADER_LEASE?",
    ]


def test_what_kubernetes_says_of_a_service_of_this_name_is_no_setting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP_ADDR"):
        monkeypatch.setenv(f"SYNC_SCHEDULER_{name}", "10.0.0.7")
    settings.SYNC_SCHEDULER = {}
    assert conf.faults() == []


def test_an_empty_url_means_embedded_mode(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C3
    monkeypatch.setenv("SYNC_SCHEDULER_REDIS_URL", "")
    settings.SYNC_SCHEDULER = {}
    assert conf.get().REDIS_URL is None
    assert not conf.get().uses_redis


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"LEADER_LEAS": 5}, "has no setting 'LEADER_LEAS'"),
        ({"LEADER_LEASE": "5"}, "['LEADER_LEASE'] must be a number, not str"),
        ({"THREADS": 2.5}, "must be a whole number"),
        ({"THREADS": True}, "must be a whole number"),
        ({"STRICT_JOBS": "yes"}, "must be True or False"),
        ({"QUEUES": "default"}, "must be a list of texts"),
        ({"QUEUES": [1]}, "must be a list of texts"),
        ({"REDIS_URL": 5}, "must be a text or None"),
        ({"REDIS_URL": "http://localhost"}, "REDIS_URL must begin with one of redis://"),
        ({"LEADER_LEASE": 0}, "LEADER_LEASE must be a number larger than 0"),
        ({"NODE_LEASE": math.nan}, "NODE_LEASE must be a number larger than 0"),
        ({"NODE_LEASE": math.inf}, "NODE_LEASE must be a number larger than 0"),
        ({"SHUTDOWN_GRACE": -1}, "SHUTDOWN_GRACE must be a number and not negative"),
        ({"MISFIRE_GRACE": math.nan}, "MISFIRE_GRACE must be at least 3 times"),
        ({"MISFIRE_GRACE": math.inf}, "MISFIRE_GRACE must be at least 3 times"),
        ({"RETENTION_DAYS": 999_999}, "RETENTION_DAYS must be at most 36525"),
        ({"LEADER_LEASE": 1, "LEADER_HEARTBEAT": 0.6}, "at most half of LEADER_LEASE"),
        ({"NODE_LEASE": 1}, "NODE_HEARTBEAT must be at most half"),
        ({"PAYLOAD_CODEC": 5}, "must be a text or None"),
        ({"QUEUE_QUOTAS": 5}, "['QUEUE_QUOTAS'] must be names with whole numbers, not int"),
        ({"QUEUE_QUOTAS": {"a": "5"}}, "must be names with whole numbers"),
        ({"QUEUE_QUOTAS": {"a": True}}, "must be names with whole numbers"),
        ({"QUEUE_QUOTAS": {1: 5}}, "must be names with whole numbers"),
        ({"QUEUE_QUOTAS": {"a": 0}}, "QUEUE_QUOTAS must give 'a' a number larger than 0"),
        ({"QUEUE_QUOTAS": {"": 5}}, "QUEUE_QUOTAS must name the queue"),
        ({"NAMESPACE": ""}, "NAMESPACE must be 1 to 64"),
        ({"NAMESPACE": "a{b}"}, "without spaces, braces"),
        ({"NAMESPACE": "x" * 65}, "NAMESPACE must be 1 to 64"),
        ({"DATABASE": "nowhere"}, "DATABASE names 'nowhere'"),
        ("lease=5", "must be a dictionary"),
    ],
)
def test_a_wrong_setting_is_said_in_words(settings: Settings, given: Any, words: str) -> None:
    # C7
    settings.SYNC_SCHEDULER = given
    assert any(words in fault for fault in conf.faults()), conf.faults()
    with pytest.raises(InvalidSetting):
        conf.get()


def test_a_wrong_environment_variable_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7
    monkeypatch.setenv("SYNC_SCHEDULER_THREADS", "many")
    settings.SYNC_SCHEDULER = {}
    assert conf.faults() == [
        "The environment variable SYNC_SCHEDULER_THREADS must be a whole number."
    ]


def test_all_faults_are_said_at_once(settings: Settings) -> None:
    # C7
    settings.SYNC_SCHEDULER = {"THREADS": 0, "UNKNOWN": 1, "LEADER_LEASE": "x", "NAMESPACE": ""}
    assert len(conf.faults()) == 4
    with pytest.raises(InvalidSetting) as caught:
        conf.get()
    assert all(fault in str(caught.value) for fault in conf.faults())
