"""A MariaDB server, from the programs on PATH or in the system folders."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import uuid
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tests.services.account import make_folder, run, unprivileged
from tests.services.ports import free_port
from tests.services.server import Server, StartFailed, Unavailable

USER = "scheduler"
# A test run is no place for a configuration file of the machine; durability gives way to speed.
SETTINGS = (
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--character-set-server=utf8mb4",
    "--max-connections=200",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=OFF",
    "--innodb-buffer-pool-size=64M",
    "--skip-log-bin",
    "--skip-name-resolve",
)


def start(*options: str) -> Server:
    """Start one; `options` are further arguments of mariadbd."""
    if importlib.util.find_spec("MySQLdb") is None:
        raise Unavailable("mysqlclient is not installed (extra [mysql])")
    daemon = _binary("mariadbd", "mysqld")
    install = _binary("mariadb-install-db", "mysql_install_db")
    account = unprivileged("mysql")
    folder, port = make_folder("mariadb", account), free_port()
    data = folder / "data"
    # A server that starts deletes what lies in its folder for temporary tables, others' too.
    own_scratch = f"--tmpdir={folder}"
    made = run(
        *(install, "--no-defaults", f"--datadir={data}", own_scratch),
        *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
        folder=folder,
        account=account,
    )
    if made.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise StartFailed(f"mariadb-install-db failed\n{made.stdout}{made.stderr}")
    first_words = folder / "init.sql"
    first_words.write_text(
        f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
    )
    first_words.chmod(0o644)
    url = f"mysql://{USER}@127.0.0.1:{port}/mysql"
    return Server(
        name="MariaDB",
        url=url,
        port=port,
        folder=folder,
        argv=(
            daemon,
            *SETTINGS,
            f"--datadir={data}",
            own_scratch,
            f"--port={port}",
            f"--socket={folder / 'server.sock'}",
            f"--pid-file={folder / 'server.pid'}",
            f"--init-file={first_words}",
            *options,
        ),
        is_ready=partial(_answers, url),
        account=account,
    ).launch()


def fresh_database(server: Server) -> str:
    """Create an empty database and return its URL."""
    name = f"fresh_{uuid.uuid4().hex[:12]}"
    connection = connect(server.url)
    try:
        connection.cursor().execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    finally:
        connection.close()
    return server.url.rpartition("/")[0] + f"/{name}"


def _answers(url: str) -> bool:
    driver = importlib.import_module("MySQLdb")
    try:
        connect(url).close()
    except driver.OperationalError:
        return False
    return True


def connect(url: str) -> Any:
    """A connection of the driver itself, for what Django is not asked to do."""
    driver = importlib.import_module("MySQLdb")
    parts = urlsplit(url)
    return driver.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        database=parts.path.lstrip("/"),
        charset="utf8mb4",
        connect_timeout=2,
    )


def _binary(*names: str) -> str:
    # An ordinary user's PATH often lacks the folders of the daemons.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    raise Unavailable(f"no {names[0]} on this machine; install MariaDB (Debian: mariadb-server)")
