"""Nodes that are replaced when they die, and a hand that kills them at random."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import time
from collections.abc import Mapping

import psutil

from sync_scheduler.models import Leader, Term
from sync_scheduler.store.locking import database_now
from tests.faults.harness import Site
from tests.faults.node import Node
from tests.faults.seed import chance


@dataclasses.dataclass(kw_only=True)
class Post:
    """A place in the fleet; somebody always holds it."""

    options: tuple[str, ...]
    environment: Mapping[str, str]
    node: Node


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blow:
    """A leader was hit, by the database's clock; others stood ready."""

    epoch: int
    at: dt.datetime


class Fleet:
    def __init__(self, site: Site, purpose: str) -> None:
        self.site = site
        self.posts: list[Post] = []
        self.kills = 0
        self.blows: list[Blow] = []
        self._chance = chance(purpose)

    def add(self, *options: str, **environment: str) -> Post:
        node = self.site.start(*options, wait=False, armed=environment)
        post = Post(options=options, environment=environment, node=node)
        self.posts.append(post)
        return post

    def wait_started(self) -> None:
        for post in self.posts:
            post.node.wait_started()

    def replace_dead(self) -> int:
        """Start a new node in the place of each that has ended; how many there were."""
        dead = [post for post in self.posts if not post.node.is_running]
        for post in dead:
            post.node = self.site.start(*post.options, wait=False, armed=post.environment)
        return len(dead)

    def strike(self) -> None:
        """SIGKILL for a process of the fleet, whichever, and a new one in its place."""
        post = self._chance.choice(self.posts)
        children = post.node.children()
        if children and self._chance.random() < 0.4:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._chance.choice(children).kill()
        else:
            self._note_if_leader(post.node)
            post.node.kill()
        self.kills += 1
        self.replace_dead()

    def strike_for(self, seconds: float, kills: int) -> None:
        """So many blows, at random moments of so many seconds."""
        began = time.monotonic()
        moments = sorted(self._chance.uniform(0, seconds) for _ in range(kills))
        for moment in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            self.strike()

    def _note_if_leader(self, node: Node) -> None:
        leader = self.site.leader()
        others = [
            post.node
            for post in self.posts
            if post.node is not node
            and "--no-dispatch" not in post.options
            and post.node.has_started
        ]
        if leader is node and others:
            self.blows.append(Blow(epoch=self.site.epoch(), at=database_now()))

    def takeovers(self) -> list[float]:
        """Seconds from each blow at a leader until the next term began."""
        began = dict(Term.objects.values_list("epoch", "started_at"))
        return [
            (began[blow.epoch + 1] - blow.at).total_seconds()
            for blow in self.blows
            if blow.epoch + 1 in began
        ]


def stand_in(name: str = "somebody:1:else", lease_seconds: float = 3600) -> int:
    """Begin the next term for a node that does not exist; its epoch."""
    now = database_now()
    epoch = Leader.objects.values_list("epoch", flat=True)[0] + 1
    Leader.objects.update(
        epoch=epoch, holder=name, since=now, expires_at=now + dt.timedelta(seconds=lease_seconds)
    )
    Term.objects.create(epoch=epoch, holder=name, started_at=now)
    return epoch
