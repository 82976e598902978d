"""Callers of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings

from sync_scheduler.api import exposition
from sync_scheduler.live import feed, seats

TOKEN = "a-long-token-that-nobody-guesses"


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    """The interface is in the project's addresses, and a token is in its settings."""
    with override_settings(
        ROOT_URLCONF="tests.integration.api.urls", SYNC_SCHEDULER={"API_TOKENS": ["other", TOKEN]}
    ):
        yield


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a process keeps between requests must not reach from one test into another."""
    monkeypatch.setattr(exposition, "_kept", (0.0, ""))
    monkeypatch.setattr(feed, "shared", feed.Feed())
    yield
    seats._taken.clear()


@pytest.fixture
def token() -> Client:
    """A script with a bearer token."""
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.fixture
def staff() -> Callable[..., Client]:
    """A browser in which a staff user with these permissions has logged in."""

    def log_in(*permissions: str, is_staff: bool = True) -> Client:
        number = User.objects.count()
        user = User.objects.create_user(f"user{number}", is_staff=is_staff)
        for codename in permissions:
            user.user_permissions.add(
                Permission.objects.get(codename=codename, content_type__app_label="sync_scheduler")
            )
        client = Client()
        client.force_login(user)
        return client

    return log_in
