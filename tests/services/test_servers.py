"""The harness itself: what a fault test does to a server must really happen to it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.services import Server, Unavailable, pgbouncer, ports, redis_cluster, redis_server
from tests.services.mariadb_server import connect as connect_mariadb
from tests.services.mariadb_server import fresh_database as fresh_mariadb
from tests.services.plugin import provide
from tests.services.postgres_server import fresh_database as fresh_postgres
from tests.services.server import wait_until


def client_of(server: Server, **options: str) -> redis.Redis:
    """A client that gives up at once instead of trying again."""
    return redis.Redis(
        host=server.host,
        port=server.port,
        socket_timeout=0.5,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        username=options.get("username"),
        password=options.get("password"),
    )


@pytest.fixture
def own_redis() -> Generator[Server, None, None]:
    with provide("redis", lambda: redis_server.start(appendonly=True)) as server:
        yield server


def test_a_paused_server_keeps_connections_but_does_not_answer(own_redis: Server) -> None:
    with client_of(own_redis) as client:
        assert client.ping()
        own_redis.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own_redis.resume()
        assert client.ping()


def test_a_killed_server_is_gone_and_returns_with_its_data(own_redis: Server) -> None:
    with client_of(own_redis) as client:
        client.set("kept", "yes")
        before = own_redis.pid
        own_redis.kill()
        assert not own_redis.is_running
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own_redis.restart()
        assert own_redis.pid != before
        assert client.get("kept") == "yes"


def test_a_paused_server_can_be_closed_and_leaves_no_folder(own_redis: Server) -> None:
    own_redis.pause()
    own_redis.close()
    assert not own_redis.folder.exists()


def test_a_replica_follows_and_a_sentinel_knows_the_master(own_redis: Server) -> None:
    with (
        redis_server.start(replica_of=own_redis) as replica,
        redis_server.start_sentinel(("main", own_redis)) as sentinel,
        client_of(own_redis) as master_client,
        client_of(replica) as replica_client,
        client_of(sentinel) as sentinel_client,
    ):
        master_client.set("word", "hello")
        wait_until(lambda: replica_client.get("word") == "hello", seconds=10, what="replicated")
        assert sentinel_client.sentinel_get_master_addr_by_name("main") == (
            own_redis.host,
            own_redis.port,
        )


def test_an_acl_keeps_strangers_out() -> None:
    users = ["user default off", "user app on >secret ~* +@all"]
    with provide("redis", lambda: redis_server.start(acl=users)) as server:
        with client_of(server) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with client_of(server, username="app", password="secret") as app:
            assert app.ping()


def test_a_cluster_serves_every_slot() -> None:
    cluster = redis_cluster.start()
    try:
        with redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port) as client:
            for number in range(50):
                client.set(f"key-{number}", number)
            assert sum(int(client.get(f"key-{number}")) for number in range(50)) == sum(range(50))
        used = [client_of(node).dbsize() for node in cluster.nodes]
        assert all(used), used
    finally:
        cluster.close()


def test_postgres_pauses_with_all_its_sessions(postgres_server: Server) -> None:
    url = fresh_postgres(postgres_server)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (n int)")
        postgres_server.pause()
        try:
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url, connect_timeout=2)
        finally:
            postgres_server.resume()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_pgbouncer_hands_one_session_to_many_clients(postgres_server: Server) -> None:
    with (
        provide("pgbouncer", lambda: pgbouncer.start(postgres_server, pool_size=1)) as pooler,
        psycopg.connect(pooler.url, autocommit=True) as first,
        psycopg.connect(pooler.url, autocommit=True) as second,
    ):
        pids = {
            connection.execute("SELECT pg_backend_pid()").fetchone()
            for connection in (first, second)
        }
        assert len(pids) == 1


def test_mariadb_stores_every_character(mariadb_server: Server) -> None:
    connection = connect_mariadb(fresh_mariadb(mariadb_server))
    try:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (words varchar(40))")
        cursor.execute("INSERT INTO t VALUES (%s)", ["naïve 🦉"])
        cursor.execute("SELECT words FROM t")
        assert cursor.fetchone() == ("naïve 🦉",)
    finally:
        connection.close()


def test_mariadb_shares_its_temporary_tables_with_no_other_server(mariadb_server: Server) -> None:
    # Another one that starts beside it would delete them.
    connection = connect_mariadb(fresh_mariadb(mariadb_server))
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT @@tmpdir")
        assert cursor.fetchone() == (str(mariadb_server.folder),)
    finally:
        connection.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
def test_servers_end_when_the_test_run_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from tests.services import redis_server\n"
        "server = redis_server.start()\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{server.port} {server.folder}\\n')\n"
        "signal.pause()\n"
    )
    note = tmp_path / "server"
    run = subprocess.Popen([sys.executable, "-c", script, str(note)])
    try:
        wait_until(
            lambda: note.exists() and note.read_text().endswith("\n"), seconds=30, what="it is up"
        )
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    port, folder = note.read_text().split()
    orphan = redis.Redis(port=int(port), retry=Retry(NoBackoff(), 0))

    def is_gone() -> bool:
        try:
            orphan.ping()
        except redis.ConnectionError:
            return True
        return False

    wait_until(is_gone, seconds=10, what="the orphan has ended")
    shutil.rmtree(folder)


def test_a_port_that_one_run_has_chosen_is_not_given_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody listens there yet, or not any more.
    monkeypatch.setattr(ports, "FIRST", 11_900)
    monkeypatch.setattr(ports, "LAST", 11_919)
    code = (
        "import sys\n"
        "from tests.services import ports\n"
        "ports.FIRST, ports.LAST = 11_900, 11_919\n"
        "print(*(ports.free_port() for _ in range(6)), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        theirs = {int(port) for port in run.stdout.readline().split()}
        ours = {ports.free_port() for _ in range(6)}
        run.communicate()
    assert (len(theirs), len(ours)) == (6, 6)
    assert not ours & theirs


def refuse() -> NoReturn:
    raise Unavailable("not on this machine")


def test_a_missing_server_is_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not on this machine"):
        provide("nothing", refuse)


def test_a_missing_server_is_a_skip_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("tests.services.plugin._missing", {})
    with pytest.raises(pytest.skip.Exception, match="not on this machine"):
        provide("nothing", refuse)
