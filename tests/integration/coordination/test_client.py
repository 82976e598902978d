"""Which Redis will do, and what is said of the others."""

from __future__ import annotations

import select
import socketserver
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import redis
from pytest_django import Settings

from sync_scheduler import clock
from sync_scheduler.coordination import announcer, client, control, joins, ready_queue, wakeup
from sync_scheduler.coordination.doorbell import Doorbell
from sync_scheduler.coordination.ready_queue import Ready
from sync_scheduler.errors import InvalidSetting, ServiceUnavailable
from sync_scheduler.models.identity import uuid7
from tests.services import Server, redis_cluster, redis_server
from tests.services.plugin import provide
from tests.services.ports import free_port


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_broken_until", 0.0)


@contextmanager
def old_redis(version: str) -> Generator[int, None, None]:
    """A server that speaks as a Redis of that version does, as far as it is asked."""

    class Old(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int(self.rfile.readline()[1:])
                    words.append(self.rfile.read(size + 2)[:size])
                if words[0].upper() == b"INFO":
                    text = f"# Server\r\nredis_version:{version}\r\n".encode()
                    self.wfile.write(b"$%d\r\n%s\r\n" % (len(text), text))
                else:
                    self.wfile.write(b"-ERR unknown command '" + words[0] + b"'\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Old)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("version", ["5.0.14", "6.0.20", "2.8.4"])
def test_a_redis_that_is_too_old_is_refused_in_one_sentence(
    version: str, settings: Settings
) -> None:
    # C7
    with old_redis(version) as port:
        settings.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{port}/0"}
        with pytest.raises(ServiceUnavailable) as caught:
            client.require_usable()
    assert str(caught.value) == (
        f"Redis at redis://127.0.0.1:{port}/0 is version {version}; 6.2 or newer is needed."
    )


def test_a_redis_that_does_not_answer_is_named_without_its_password(settings: Settings) -> None:
    # C7
    port = free_port()
    settings.SYNC_SCHEDULER = {"REDIS_URL": f"redis://user:hunter2@127.0.0.1:{port}/0"}
    with pytest.raises(ServiceUnavailable) as caught:
        client.require_usable()
    assert f"Redis at redis://127.0.0.1:{port}/0 does not answer" in str(caught.value)
    assert "mend REDIS_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.fixture(scope="module")
def locked_redis() -> Generator[Server, None, None]:
    """It wants the password `right`, and one of its users may only read."""
    with provide("redis", redis_server.start) as server:
        with redis.Redis(port=server.port) as direct:
            direct.acl_setuser("poor", enabled=True, passwords=["+right"], categories=["+@read"])
            direct.config_set("requirepass", "right")
        yield server


@pytest.mark.parametrize(
    ("login", "database", "sentence"),
    [
        ("nobody:hunter2", 0, "does not accept the user or the password of REDIS_URL"),
        (":hunter2", 0, "does not accept the user or the password of REDIS_URL"),
        ("", 0, "does not accept the user or the password of REDIS_URL"),
        (":right", 99, "look at the number of the database in REDIS_URL"),
        ("poor:right", 0, "and at what its user may do"),
    ],
)
def test_a_redis_that_refuses_says_what_to_mend(
    settings: Settings, locked_redis: Server, login: str, database: int, sentence: str
) -> None:
    # C7
    at = f"127.0.0.1:{locked_redis.port}/{database}"
    url = f"redis://{login}{'@' if login else ''}{at}"
    settings.SYNC_SCHEDULER = {"REDIS_URL": url, "REDIS_TIMEOUT": 5.0}
    with pytest.raises(ServiceUnavailable) as caught:
        client.require_usable()
    said = str(caught.value)
    assert said.startswith(f"Redis at redis://{at} ")
    assert sentence in said
    assert "hunter2" not in said


def test_a_server_that_is_no_redis_is_refused_in_one_sentence(
    settings: Settings,
) -> None:
    # C7
    class Web(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.SYNC_SCHEDULER = {"REDIS_URL": f"redis://127.0.0.1:{server.server_address[1]}/0"}
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            client.require_usable()
        server.shutdown()


def test_a_redis_that_will_do_is_accepted(settings: Settings, redis_url: str) -> None:
    # C7
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    client.require_usable()


def test_without_a_url_nobody_asks_for_a_client(settings: Settings) -> None:
    # C3
    settings.SYNC_SCHEDULER = {}
    with pytest.raises(ServiceUnavailable, match="embedded mode"):
        client.client()


def one_entry() -> Ready:
    return Ready(id=uuid7().hex, queue="default", priority=0, run_at=clock.now())


@pytest.mark.parametrize("state", ["closed", "frozen"])
def test_nothing_that_is_told_to_a_dead_redis_raises_or_waits_for_long(
    state: str, settings: Settings
) -> None:
    # B11
    with provide("redis", redis_server.start) as server:
        settings.SYNC_SCHEDULER = {"REDIS_URL": server.url, "REDIS_TIMEOUT": 0.2}
        client.require_usable()
        if state == "closed":
            server.kill()
        else:
            server.pause()
        before = time.monotonic()
        announcer.announce([one_entry()])
        announcer.announce_if_redis([one_entry()])
        control.tell_cancelled("ab" * 16)
        joins.ended(["ab" * 16])
        wakeup.tell(wakeup.SCHEDULE)
        with joins.interest("ab" * 16, 5) as waiter:
            waiter.wait(0.01)
        # Far below what a library that tries on its own for seconds would take.
        assert time.monotonic() - before < 4.0
        assert announcer.flush(10.0)


def rung_id(queues: list[str]) -> str | None:
    """What a doorbell brings, on a connection of its own."""
    doorbell = Doorbell(1.0)
    doorbell.wait(queues, 10)
    assert select.select([doorbell], [], [], 10)[0]
    rung = doorbell.answer()
    doorbell.close()
    return None if rung is None else rung.id


def test_an_acl_user_with_only_the_namespaces_keys_is_enough(settings: Settings) -> None:
    # C8
    users = [
        "user default off",
        "user app on >se%cret resetchannels ~sync_scheduler:{default}:*"
        " &sync_scheduler:{default}:* +@all -@dangerous +info",
    ]
    with provide("redis", lambda: redis_server.start(acl=users)) as server:
        url = server.url.replace("redis://", "redis://app:se%25cret@")
        settings.SYNC_SCHEDULER = {"REDIS_URL": url, "REDIS_TIMEOUT": 10.0}
        client.require_usable()
        assert "cret" not in client.shown_url()
        one = one_entry()
        ready_queue.push([one])
        assert ready_queue.pop(["default"], 1) == [one.id]


def test_a_socket_in_the_file_system_does_everything_that_a_port_does(settings: Settings) -> None:
    # C8
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ss-unix-", dir="/tmp")))
        path = folder / "redis.sock"
        stack.enter_context(
            provide("redis", lambda: redis_server.start(settings={"unixsocket": str(path)}))
        )
        settings.SYNC_SCHEDULER = {"REDIS_URL": f"unix://{path}?db=1", "REDIS_TIMEOUT": 10.0}
        client.require_usable()
        assert client.shown_url() == f"unix://{path}"
        one, two = one_entry(), one_entry()
        announcer.announce([one])
        assert announcer.flush(10.0)
        assert not client.is_broken()
        assert ready_queue.pop(["default"], 1) == [one.id]
        ready_queue.push([two])
        assert rung_id(["default"]) == two.id


def test_a_sentinel_leads_to_the_master(settings: Settings) -> None:
    # C8
    with (
        provide("redis", redis_server.start) as master,
        redis_server.start_sentinel(("main", master)) as sentinel,
    ):
        settings.SYNC_SCHEDULER = {
            "REDIS_URL": f"redis+sentinel://{sentinel.host}:{sentinel.port}/main/0",
            "REDIS_TIMEOUT": 10.0,
        }
        client.require_usable()
        one, two = one_entry(), one_entry()
        ready_queue.push([one, two])
        assert ready_queue.pop(["default"], 1) == [one.id]
        assert rung_id(["default"]) == two.id


def test_a_sentinel_that_wants_a_user_and_a_password_gets_them(settings: Settings) -> None:
    # C8
    users = ["user default off", "user app on >w@rd allchannels +@all"]
    with (
        provide("redis", redis_server.start) as master,
        redis_server.start_sentinel(("main", master), acl=users) as sentinel,
    ):
        url = f"redis+sentinel://{sentinel.host}:{sentinel.port}/main"
        settings.SYNC_SCHEDULER = {"REDIS_URL": url}
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            client.require_usable()
        url += "?sentinel_username=app&sentinel_password=w%40rd"
        settings.SYNC_SCHEDULER = {"REDIS_URL": url}
        client.require_usable()
        assert "rd" not in client.shown_url()


def test_a_sentinel_url_without_a_service_is_refused(settings: Settings) -> None:
    # C7
    settings.SYNC_SCHEDULER = {"REDIS_URL": "redis+sentinel://127.0.0.1:26379"}
    with pytest.raises(InvalidSetting, match="must name the service"):
        client.require_usable()


@pytest.fixture(scope="module")
def cluster() -> Generator[redis_cluster.Cluster, None, None]:
    with provide("redis", redis_server.start):
        made = redis_cluster.start()
    yield made
    made.close()


def test_a_cluster_does_everything_that_one_server_does(
    settings: Settings, cluster: redis_cluster.Cluster
) -> None:
    # C8
    settings.SYNC_SCHEDULER = {"REDIS_URL": cluster.url, "REDIS_TIMEOUT": 10.0}
    client.require_usable()
    one, two = one_entry(), one_entry()
    ready_queue.push([one, two])
    assert ready_queue.pop(["default", "other"], 1) == [one.id]
    assert rung_id(["other", "default"]) == two.id
    control.tell_cancelled(one.id)
    assert not client.is_broken()
    with joins.interest(one.id, 30) as waiter:
        joins.ended([one.id])
        waiter.wait(30)
    assert not client.is_broken()


def test_a_process_that_was_forked_has_a_client_of_its_own(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # B11
    settings.SYNC_SCHEDULER = {"REDIS_URL": redis_url}
    before = client.client()
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert client.client() is not before
