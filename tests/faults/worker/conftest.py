"""A node that stays between tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from pytest_django import DjangoDbBlocker, Settings

from sync_scheduler.models import Node
from tests.faults.conftest import as_settings
from tests.faults.harness import QUICK, Site


@pytest.fixture(scope="module")
def _standing(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Generator[Site, None, None]:
    made = Site(tmp_path_factory.mktemp("standing"), {"SYNC_SCHEDULER_MAX_CHAIN_DEPTH": "5"})
    made.start()
    yield made
    made.close()
    with django_db_blocker.unblock():
        # Its beat has put it back since the last test's rows were removed.
        Node.objects.all().delete()


@pytest.fixture
def working(_standing: Site, transactional_db: None, settings: Settings) -> Site:
    """A site whose one node stays between tests, for what it is to shrug off."""
    settings.SYNC_SCHEDULER = as_settings(QUICK)
    _standing.ledger.unlink(missing_ok=True)
    assert _standing.nodes[0].is_running, _standing.report()
    return _standing
