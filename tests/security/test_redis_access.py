"""Redis over TLS, as a user who may do little, and beside another installation."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import redis
from pytest_django import Settings

from sync_scheduler import checks, clock
from sync_scheduler.coordination import announcer, client, election, ready_queue, tenancy
from sync_scheduler.dispatch import reconcile
from sync_scheduler.errors import ServiceUnavailable
from sync_scheduler.models import Gate, Run
from sync_scheduler.store import installation, leader, upkeep
from sync_scheduler.work import claim
from tests.security import tls
from tests.services import redis_server
from tests.services.plugin import provide
from tests.services.server import Server, Unavailable
from tests.testapp import jobs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    try:
        authority = tls.make_authority(folder, "ours")
        tls.make_authority(folder, "strangers")
        tls.make_certificate(folder, authority, "127.0.0.1")
        tls.make_certificate(folder, authority, "elsewhere.example")
    except Unavailable as reason:
        pytest.skip(str(reason))
    return folder


# ---------------------------------------------------------------------------- S15: TLS


def test_redis_is_used_over_tls(
    settings: Settings, redis_server: Server, redis_url: str, certificates: Path
) -> None:  # S15, C8
    with tls.door(redis_server, certificates / "127.0.0.1.both") as port:
        trusted = f"?ssl_ca_certs={certificates / 'ours.pem'}"
        settings.SYNC_SCHEDULER = {"REDIS_URL": f"rediss://127.0.0.1:{port}/0{trusted}"}
        client.require_usable()
        assert election.campaign("node", 5)
        assert election.resign("node")


@pytest.mark.parametrize(
    ("certificate", "trusted"),
    [
        ("127.0.0.1.both", "?ssl_ca_certs={folder}/strangers.pem"),
        ("127.0.0.1.both", ""),
        ("elsewhere.example.both", "?ssl_ca_certs={folder}/ours.pem"),
    ],
    ids=["signed by a stranger", "signed by nobody we know", "of another host"],
)
def test_a_certificate_that_proves_nothing_is_refused(
    settings: Settings, redis_server: Server, certificates: Path, certificate: str, trusted: str
) -> None:  # S15
    with tls.door(redis_server, certificates / certificate) as port:
        query = trusted.format(folder=certificates)
        settings.SYNC_SCHEDULER = {"REDIS_URL": f"rediss://127.0.0.1:{port}/0{query}"}
        with pytest.raises(ServiceUnavailable):
            client.require_usable()


# ---------------------------------------------------------------------------- S15: ACL


def documented_user() -> str:
    """The line of an ACL file that the documentation tells people to use."""
    page = (ROOT / "docs" / "how-to" / "redis-acl.md").read_text(encoding="utf-8")
    found = re.search(r"^user scheduler .*?(?=^```)", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return " ".join(found[0].replace("\\\n", " ").split())


@pytest.mark.django_db(transaction=True)
def test_the_documented_user_is_enough_for_everything(settings: Settings) -> None:  # S15
    acl = ["user default off", documented_user(), "user root on >root ~* &* +@all"]
    with provide("redis", lambda: redis_server.start(acl=acl)) as server:
        url = server.url.replace("redis://", "redis://scheduler:change-me@")
        settings.SYNC_SCHEDULER = {"REDIS_URL": url, "REDIS_TIMEOUT": 10.0}
        run, late = jobs.add.submit(a=1, b=2), jobs.add.using(delay=3600).submit(a=0, b=0)
        assert late.cancel()
        announcer.flush(10)
        result = drain(url)
        assert result.returncode == 0, result.stdout + result.stderr
        run.join(timeout=20)
        assert run.result == 3
        with redis.Redis.from_url(server.url.replace("//", "//root:root@")) as root:
            denied = [entry["object"] for entry in root.acl_log()]
            assert denied == [], "the page leaves something out"
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.client().get("somebody:else")


def drain(redis_url: str) -> subprocess.CompletedProcess[str]:
    """A node that leads, works and ends."""
    return subprocess.run(
        [sys.executable, "-m", "django", "runscheduler", "--drain", "--processes=1"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "SYNC_SCHEDULER_REDIS_URL": redis_url,
        },
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


# ---------------------------------------------------------------------------- S26


@pytest.mark.django_db
def test_an_id_of_another_installation_is_dropped_here_and_not_lost_there(
    settings: Settings, redis_url: str
) -> None:  # S26
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    theirs, ours = "ab" * 16, jobs.noop.submit()
    announcer.flush(10)
    now = clock.now()
    entries = [theirs, ours.id.hex]
    ready_queue.push(
        ready_queue.Ready(id=one, queue="default", priority=0, run_at=now) for one in entries
    )
    popped = [uuid.UUID(one) for one in ready_queue.pop(["default"], 10)]
    assert {one.hex for one in popped} == set(entries)
    taken = claim.claim_ids(popped, "node", claim.known())
    assert [one.id for one in taken] == [ours.id]

    leader.look()  # somebody leads there
    # The other installation's reconciler finds that its Run is not in Redis any more.
    run = jobs.noop.submit()
    announcer.flush(10)
    ready_queue.pop(["default"], 10)
    Run.objects.filter(id=run.id).update(run_at=now - dt.timedelta(seconds=10))
    done = reconcile.reconcile(clock.now(), upkeep.probe(clock.now()))
    assert (done.pushed, ready_queue.pop(["default"], 10)) == (1, [run.id.hex])


@pytest.mark.django_db
def test_a_namespace_that_another_installation_uses_is_refused(
    settings: Settings, redis_url: str
) -> None:  # S26, E13
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    assert checks.start_up_faults() == []
    assert checks.start_up_faults() == [], "a second node of the same installation is welcome"

    Gate.objects.all().delete()  # as in another database
    (fault,) = checks.start_up_faults()
    assert fault.id == "sync_scheduler.E004"

    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url, "NAMESPACE": "of-its-own"}
    assert checks.start_up_faults() == []


@pytest.mark.django_db
def test_the_mark_of_an_installation_runs_out(settings: Settings, redis_url: str) -> None:  # S26
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    assert tenancy.occupy(installation.identify()) == installation.identify()
    left = client.client().pttl(client.keys().installation)
    assert 0 < left <= tenancy.MARK_SECONDS * 1000
