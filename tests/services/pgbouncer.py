"""PgBouncer in transaction mode before a PostgreSQL server: what many a site runs in between."""

from __future__ import annotations

import os
import shutil
from functools import partial

from tests.services import postgres_server
from tests.services.account import make_folder, unprivileged
from tests.services.ports import free_port
from tests.services.server import Server, Unavailable


def start(upstream: Server, *, pool_size: int = 5) -> Server:
    """Start one; its URL is the upstream's with another port."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        raise Unavailable("no pgbouncer on this machine (Debian: pgbouncer)")
    account = unprivileged("postgres")
    folder, port = make_folder("pgbouncer", account), free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        "[databases]\n"
        f"* = host={upstream.host} port={upstream.port} user={postgres_server.USER}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {pool_size}\nmax_client_conn = 500\n"
        # Drivers send it at connect; the pooler cannot keep it per transaction.
        "ignore_startup_parameters = extra_float_digits\n"
    )
    config.chmod(0o644)
    url = upstream.url.replace(f":{upstream.port}/", f":{port}/")
    return Server(
        name="PgBouncer",
        url=url,
        port=port,
        folder=folder,
        argv=(program, str(config)),
        is_ready=partial(postgres_server.answers, url),
        account=account,
    ).launch()
