"""A Redis Cluster of three masters, each owning a third of the slots."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass

import redis

from tests.services import redis_server
from tests.services.server import Server, wait_until

SLOTS = 16_384


@dataclass(frozen=True, kw_only=True)
class Cluster:
    nodes: tuple[Server, ...]

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def start(*, masters: int = 3) -> Cluster:
    with ExitStack() as undo:
        nodes = [undo.enter_context(redis_server.start(cluster=True)) for _ in range(masters)]
        _join(nodes)
        undo.pop_all()  # whole: from here on the caller closes it
    return Cluster(nodes=tuple(nodes))


def _join(nodes: list[Server]) -> None:
    with ExitStack() as connections:
        clients = [connections.enter_context(_client(node)) for node in nodes]
        for index, client in enumerate(clients):
            first, last = index * SLOTS // len(nodes), (index + 1) * SLOTS // len(nodes)
            client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
            # Equal epochs would make the masters quarrel about who owns what.
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in nodes[1:]:
            clients[0].execute_command("CLUSTER", "MEET", node.host, node.port)
        wait_until(
            lambda: all(_agrees(client, len(nodes)) for client in clients),
            seconds=30,
            what="the cluster is whole",
        )


def _client(node: Server) -> redis.Redis:
    return redis.Redis(host=node.host, port=node.port, socket_timeout=5)


def _agrees(client: redis.Redis, masters: int) -> bool:
    # Some versions of the client library parse the reply, others hand on what the server said.
    info: object = client.cluster("INFO")
    text = info.decode() if isinstance(info, bytes) else str(info)
    state = dict(re.findall(r"(cluster_state|cluster_known_nodes)\W+(\w+)", text))
    return state.get("cluster_state") == "ok" and state["cluster_known_nodes"] == str(masters)
