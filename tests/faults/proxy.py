"""A TCP proxy between nodes and a server, which a test can make unreliable.

One thread with an event loop of its own per proxy. How it behaves is one value, replaced as a
whole, so that a test can change it at any moment:

    with Proxy(server.port) as proxy:
        site.environment["TEST_DATABASE_URL"] = proxy.url(url)
        proxy.behave(delay=0.3)                  # every answer comes so many seconds later
        proxy.behave(black_hole=True)            # connections stand, nothing passes
        proxy.behave(refuse=True)                # who connects is turned away
        proxy.behave(reset_share=0.02)           # this share of requests breaks its connection
        proxy.behave(swallow=COMMIT, swallow_share=0.02)
        proxy.reset_all()                        # every connection is broken now
        proxy.heal()

`swallow` is for the worst moment of all: a request that matches goes through, the server does what
it says, and then the connection breaks instead of the answer coming back.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import re
import socket
import struct
import threading
from collections import Counter
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.faults.seed import chance
from tests.services.ports import free_port

# What PostgreSQL is asked at the end of a transaction, in either protocol.
COMMIT = re.compile(rb"[QP][\x00-\xff]{4}\x00?COMMIT\x00")
# A Run that is inserted outside of any transaction commits with its statement.
INSERT_RUN = re.compile(rb'INSERT INTO "?sync_scheduler_run"? ')
_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Behaviour:
    delay: float = 0.0
    black_hole: bool = False
    refuse: bool = False
    reset_share: float = 0.0
    swallow: re.Pattern[bytes] | None = None
    swallow_share: float = 1.0


class _Link:
    """One client's connection and ours to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._ends = (client, server)
        self.swallows = False

    def reset(self) -> None:
        """Break both at once; each end gets a reset, not a polite end."""
        for end in self._ends:
            made = end.get_extra_info("socket")
            with contextlib.suppress(OSError, AttributeError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.transport.abort()


class Proxy:
    """`counts` says what was really done: connections, resets, swallowed."""

    def __init__(self, port: int, host: str = "127.0.0.1", name: str = "proxy") -> None:
        self.behaviour = Behaviour()
        self.counts: Counter[str] = Counter()
        self.port = free_port()
        self._upstream = (host, port)
        self._chance: random.Random = chance("proxy", name)
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{name}", daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy does not listen")

    def url(self, url: str) -> str:
        """The same address, through this proxy."""
        parts = urlsplit(url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return parts._replace(netloc=f"{user}127.0.0.1:{self.port}").geturl()

    def behave(
        self,
        *,
        delay: float = 0.0,
        black_hole: bool = False,
        refuse: bool = False,
        reset_share: float = 0.0,
        swallow: re.Pattern[bytes] | None = None,
        swallow_share: float = 1.0,
    ) -> None:
        """From now on; what is not named is well."""
        self.behaviour = Behaviour(
            delay=delay,
            black_hole=black_hole,
            refuse=refuse,
            reset_share=reset_share,
            swallow=swallow,
            swallow_share=swallow_share,
        )

    def lead_to(self, port: int) -> None:
        """Another server from now on; whoever is connected stays until it is reset."""
        self._upstream = (self._upstream[0], port)

    def heal(self) -> None:
        self.behaviour = Behaviour()

    def reset_all(self) -> int:
        """Break every connection that stands; how many there were."""

        async def reset() -> int:
            links = list(self._links)
            for link in links:
                link.reset()
            self.counts["resets"] += len(links)
            return len(links)

        return asyncio.run_coroutine_threadsafe(reset(), self._loop).result(10)

    def close(self) -> None:
        self.heal()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ inside the loop

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=200)
        self._ready.set()
        await self._ended.wait()
        server.close()
        # Somebody whose connection was just taken begins a moment after the others have ended.
        quiet = 0
        while quiet < 3:
            for link in list(self._links):
                link.reset()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0)
            quiet = 0 if left else quiet + 1

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts["connections"] += 1
        try:
            if self.behaviour.refuse:
                raise ConnectionRefusedError
            server_reader, server_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, server_writer)
        self._links.add(link)
        pumps = [
            asyncio.ensure_future(self._ask(reader, server_writer, link)),
            asyncio.ensure_future(self._answer(server_reader, writer, link)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._links.discard(link)
            for end in (writer, server_writer):
                end.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._pass_black_hole()
            now = self.behaviour
            if now.reset_share and self._chance.random() < now.reset_share:
                self.counts["resets"] += 1
                link.reset()
                return
            if now.swallow is not None and now.swallow.search(data):
                link.swallows = self._chance.random() < now.swallow_share
            writer.write(data)
            await writer.drain()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> None:
        while data := await reader.read(_CHUNK):
            if link.swallows:
                # The server has answered, so it has done what it was asked.
                self.counts["swallowed"] += 1
                link.reset()
                return
            await self._pass_black_hole()
            if self.behaviour.delay:
                await asyncio.sleep(self.behaviour.delay)
            writer.write(data)
            await writer.drain()

    async def _pass_black_hole(self) -> None:
        while self.behaviour.black_hole:
            await asyncio.sleep(0.02)
