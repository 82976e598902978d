"""People with and without permissions, and browsers that are logged in as them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

Login = Callable[..., Client]


@pytest.fixture
def operator(db: None) -> User:
    return User.objects.create_superuser("ops", password="secret")


@pytest.fixture
def browser(operator: User) -> Client:
    """Logged in as somebody who may do everything."""
    client = Client()
    client.force_login(operator)
    return client


@pytest.fixture
def login(db: None) -> Login:
    """Log in as a member of staff who has exactly these permissions of the scheduler."""

    def as_somebody(*permissions: str, checks_csrf: bool = False) -> Client:
        user = User.objects.create_user(
            f"staff-{User.objects.count()}", password="secret", is_staff=True
        )
        found = Permission.objects.filter(
            content_type__app_label="sync_scheduler", codename__in=permissions
        )
        assert {one.codename for one in found} == set(permissions)
        user.user_permissions.set(found)
        client = Client(enforce_csrf_checks=checks_csrf)
        client.force_login(user)
        return client

    return as_somebody
