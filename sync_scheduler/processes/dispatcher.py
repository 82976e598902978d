"""The dispatcher's loops: electing, dispatching, keeping house. Only the leader's act.

Each runs in a thread of its own with its own connection. Renewing must not wait for a long tick,
and a long tick must not wait for housekeeping. If one of them hangs or dies, this node stops
leading, so that another one can.
"""

from __future__ import annotations

import datetime as dt
import logging
import sys
import threading
from collections.abc import Callable

from django.db import connections

from sync_scheduler import clock, conf, signals
from sync_scheduler.coordination import client, wakeup
from sync_scheduler.dispatch.leadership import DATABASE_TROUBLE, Leadership
from sync_scheduler.dispatch.term import Term
from sync_scheduler.dispatch.tick import Decided, Ticked, look_ahead, tick
from sync_scheduler.errors import LeadershipLost
from sync_scheduler.models import Schedule
from sync_scheduler.processes.housekeeping import Housekeeping
from sync_scheduler.processes.progress import Progress
from sync_scheduler.store import leader

logger = logging.getLogger(__name__)

_LONGEST_SLEEP_SECONDS = 60.0
# A due schedule that cannot be moved on (its row is locked) is asked for again after this.
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_LISTEN_SECONDS = 5.0
_TURN_SECONDS = 0.0005
# So long before a slot it is read and decided what is due, so that only the write is left to do.
_AHEAD_SECONDS = 0.05


class Dispatcher:
    """`start`, then `stop`; in between this node leads whenever it may."""

    def __init__(self, node: str) -> None:
        settings = conf.get()
        self._dispatching = Progress("dispatch loop", settings.LEADER_LEASE)
        # A single batch of housekeeping may wait for locks longer than a lease lasts.
        self._house = Progress("housekeeping", max(60.0, 2 * settings.LEADER_LEASE))
        self.leadership = Leadership(node, self._find_fault)
        self._housekeeping = Housekeeping(self.leadership, self._house)
        self._stopping = threading.Event()
        self._elect = threading.Event()
        self._wake = threading.Event()
        self._first_pass = threading.Event()
        self._sleeps_until: dt.datetime | None = None
        self._ahead: Decided | None = None
        self._stop_listening: Callable[[], None] = lambda: None
        self._threads = [
            threading.Thread(target=self._run_elections, name="elector", daemon=True),
            threading.Thread(target=self._run_dispatching, name="dispatch", daemon=True),
            threading.Thread(target=self._run_housekeeping, name="housekeeping", daemon=True),
        ]
        if settings.uses_redis:
            listener = threading.Thread(target=self._run_listening, name="wake-ups", daemon=True)
            self._threads.append(listener)

    # ------------------------------------------------------------------ from outside

    def start(self) -> None:
        # A loop that comes back from the database must not wait 5 ms for another's turn to end.
        sys.setswitchinterval(_TURN_SECONDS)
        self._stop_listening = wakeup.listen(self._on_wakeup)
        # The elector last: it does not lead for loops that are not there.
        for thread in reversed(self._threads):
            thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Finish the tick under way, resign, and wait for the loops to end."""
        self._stopping.set()
        self._elect.set()
        self._wake.set()
        self._stop_listening()
        self.join(timeout)

    def join(self, timeout: float | None = None) -> None:
        deadline = None if timeout is None else clock.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive() and thread.name != "wake-ups":
                left = None if deadline is None else max(0.0, deadline - clock.monotonic())
                thread.join(left)

    @property
    def is_leading(self) -> bool:
        return self.leadership.term is not None

    def wait_first_pass(self, seconds: float) -> bool:
        """Until what was due at the start has been dispatched, here or by another leader."""
        return self._first_pass.wait(seconds)

    # ------------------------------------------------------------------ electing

    def _run_elections(self) -> None:
        while not self._stopping.is_set():
            wait, begun = conf.get().LEADER_HEARTBEAT, clock.monotonic()
            led_before = self.leadership.term
            try:
                wait = self.leadership.step()
            except DATABASE_TROUBLE as error:
                logger.warning("election: %s", _first_line(error), extra={"event": "no_database"})
                connections.close_all()
            except Exception:
                logger.exception("election failed", extra={"event": "election_failed"})
                connections.close_all()
            self._after_step(led_before)
            if self.leadership.term is None and conf.get().uses_redis:
                # Redis will tell when there is something to ask. A connection that is idle for so
                # long may be dead by then without a word, and whoever asks through it waits.
                connections.close_all()
            # A Redis that does not answer takes its time in every step; the lease does not wait.
            self._elect.wait(max(0.0, wait - (clock.monotonic() - begun)))
            self._elect.clear()
        # Give the tick under way a moment to end: what it holds is still ours.
        self._threads[1].join(conf.get().LEADER_LEASE / 2)
        try:
            self.leadership.resign("resigned")
        except Exception:
            logger.exception("could not resign", extra={"event": "election_failed"})
        connections.close_all()

    def _after_step(self, led_before: Term | None) -> None:
        term = self.leadership.term
        if term is None:
            if led_before is not None:
                self._wake.set()
            return
        earliest, planned = self.leadership.take_earliest(), self._sleeps_until
        if led_before is not term or (
            earliest is not None and (planned is None or earliest < planned)
        ):
            self._wake.set()

    def _find_fault(self) -> str:
        dead = [thread.name for thread in self._threads[1:3] if not thread.is_alive()]
        if dead and not self._stopping.is_set():
            return f"its {dead[0]} thread has died"
        return self._dispatching.fault or self._house.fault

    # ------------------------------------------------------------------ dispatching

    def _run_dispatching(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            term = self.leadership.term
            if term is None:
                self._sleeps_until = None
                connections.close_all()
                self._wake.wait(conf.get().LEADER_HEARTBEAT)
                self._wake.clear()
                continue
            # Cleared before the look: what changes from here on wakes us again.
            self._wake.clear()
            self._dispatching.work()
            done, earliest = self._tick(term)
            self._dispatching.rest()
            pause = _longer(pause) if done is None or done.held_up > 0 else 0.0
            self._sleep(earliest, pause)
        connections.close_all()

    def _tick(self, term: Term) -> tuple[Ticked | None, dt.datetime | None]:
        """What was done (None: it failed), and when the next schedule is due."""
        try:
            now = self.leadership.offset.database_time()
            ahead, self._ahead = self._ahead, None
            done = tick(term, now, self._dispatching.work, ahead)
            self._first_pass.set()
            return done, leader.earliest_due(now, only_later=done.held_up > 0)
        except LeadershipLost:
            logger.info("the term is over", extra={"event": "term_over"})
            self._elect.set()
        except Exception as error:
            logger.exception("tick failed", extra={"event": "tick_failed"})
            signals.notify(signals.tick_failed, Schedule, error=error)
            connections.close_all()
        return None, None

    def _sleep(self, earliest: dt.datetime | None, pause: float) -> None:
        """Exactly until the next slot, unless woken; with `pause`, no longer than that."""
        if pause:
            # Whatever comes due meanwhile need not wait for the one that is held up.
            self._stopping.wait(min(pause, self._seconds_until(earliest)))
            return
        self._sleeps_until = earliest
        seconds = self._seconds_until(earliest)
        if earliest is not None and _AHEAD_SECONDS < seconds < _LONGEST_SLEEP_SECONDS:
            if not self._wake.wait(seconds - _AHEAD_SECONDS):
                self._look_ahead(earliest)
                self._wake.wait(self._seconds_until(earliest))
        elif seconds:
            self._wake.wait(seconds)
        self._sleeps_until = None

    def _seconds_until(self, earliest: dt.datetime | None) -> float:
        if earliest is None:
            return _LONGEST_SLEEP_SECONDS
        ahead = earliest - self.leadership.offset.database_time()
        return min(max(ahead.total_seconds(), 0.0), _LONGEST_SLEEP_SECONDS)

    def _look_ahead(self, earliest: dt.datetime) -> None:
        self._dispatching.work()
        try:
            self._ahead = look_ahead(earliest)
        except Exception:  # the tick itself will meet it, and say so
            logger.debug("could not look ahead", exc_info=True)
            connections.close_all()
        self._dispatching.rest()

    # ------------------------------------------------------------------ the rest

    def _run_housekeeping(self) -> None:
        try:
            while not self._stopping.is_set():
                self._house.work()
                try:
                    wait = self._housekeeping.step()
                except Exception:
                    logger.exception("housekeeping failed", extra={"event": "housekeeping_failed"})
                    self._housekeeping.lose_contact()
                    connections.close_all()
                    wait = 1.0
                self._house.rest()
                self._stopping.wait(wait)
        finally:
            connections.close_all()

    def _run_listening(self) -> None:
        listener = wakeup.Listener(_LISTEN_SECONDS)
        while not self._stopping.is_set():
            try:
                told = listener.next()
                if told is not None:
                    self._on_wakeup(told)
            except client.UNREACHABLE:
                listener.close()
                self._stopping.wait(1.0)
        listener.close()

    def _on_wakeup(self, what: str) -> None:
        if what == wakeup.RESIGNED:
            self._elect.set()
        else:
            self._wake.set()


def _longer(pause: float) -> float:
    return min(max(pause * 2, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
