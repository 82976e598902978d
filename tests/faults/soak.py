"""Everything that can go wrong, at random and for as long as one likes, under a steady load.

    make soak MINUTES=60        (FAULTS_SEED=... for the same choices again)

Nodes are killed, frozen and restarted, Redis is emptied and killed, PostgreSQL crashes, and the
network between them breaks. Schedules of every second and submits of atomic Runs go on all the
time. In the end everything is left in peace, has to come to rest, and is audited.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import django

from tests.faults.proxy import Proxy
from tests.services import postgres_server, redis_server


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where logs and the ledger are kept")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        durable = {"synchronous_commit": "on"}
        postgres = stack.enter_context(postgres_server.start(settings=durable))
        redis = stack.enter_context(redis_server.start())
        url = postgres_server.fresh_database(postgres)
        os.environ.update(
            DJANGO_SETTINGS_MODULE="tests.settings",
            TEST_DATABASE="postgres",
            TEST_DATABASE_URL=url,
        )
        django.setup()
        # What has models can be imported only now.
        from tests.faults.storm import Servers, Storm

        servers = Servers(
            postgres=postgres,
            redis=redis,
            postgres_proxy=stack.enter_context(Proxy(postgres.port, name="postgres")),
            redis_proxy=stack.enter_context(Proxy(redis.port, name="redis")),
        )
        folder = given.folder or Path(tempfile.mkdtemp(prefix="ss-soak-"))
        folder.mkdir(parents=True, exist_ok=True)
        storm = Storm(folder, servers, url)
        stack.callback(storm.close)
        return storm.run(given.minutes * 60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
