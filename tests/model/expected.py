"""What is promised about a schedule, said once more and as simply as possible.

Rules are instants at equal distances (or one instant), so that counting slots is arithmetic that
owes nothing to the code under test.
"""

from __future__ import annotations

import dataclasses
import datetime as dt

_MICROSECOND = dt.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Beat:
    """The slots `anchor + k * step`; without a step the anchor alone."""

    anchor: dt.datetime
    step: dt.timedelta | None

    def after(self, base: dt.datetime) -> dt.datetime | None:
        """The first slot strictly after `base`."""
        if base < self.anchor:
            return self.anchor
        if self.step is None:
            return None
        return self.anchor + ((base - self.anchor) // self.step + 1) * self.step

    def between(self, first: dt.datetime, last: dt.datetime) -> list[dt.datetime]:
        """The slots from `first` to `last`, both included."""
        found = []
        slot = self.after(first - _MICROSECOND)
        while slot is not None and slot <= last:
            found.append(slot)
            slot = self.after(slot)
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slots:
    """What must become of the slots of one schedule in one go."""

    run: tuple[dt.datetime, ...] = ()
    overflow: tuple[dt.datetime, ...] = ()
    missed: tuple[dt.datetime, ...] = ()
    paused: tuple[dt.datetime, ...] = ()
    changed: tuple[dt.datetime, ...] = ()


@dataclasses.dataclass(kw_only=True)
class Expected:
    """One schedule as the model knows it. `next_slot` is the first one not dealt with."""

    pk: int
    name: str
    beat: Beat
    overlap: str
    misfire: str
    max_catch_up: int
    grace: float
    enabled: bool = True
    next_slot: dt.datetime | None = None
    watermark: dt.datetime | None = None
    is_paused: bool = False
    paused_until: dt.datetime | None = None

    def leave(self, now: dt.datetime) -> Slots:
        """The rule ends here: what was due by it is passed over. (A reminder is only moved.)"""
        if not self.enabled or self.next_slot is None or self.beat.step is None:
            return Slots()
        passed = self._fresh(self.beat.between(self.next_slot, now))
        self._done(passed)
        still = self.is_paused and (self.paused_until is None or self.paused_until >= now)
        return Slots(paused=tuple(passed)) if still else Slots(changed=tuple(passed))

    def begin(self, now: dt.datetime) -> None:
        """The rule holds from now on: what was before is not made up for."""
        self.next_slot = self.beat.after(now) if self.enabled else None
        if self.enabled and self.beat.step is None:
            late = now - self.beat.anchor
            fresh = late < dt.timedelta(seconds=self.grace) and self.watermark != self.beat.anchor
            self.next_slot = self.beat.anchor if fresh else None

    def dispatch(self, now: dt.datetime, active: int) -> Slots:
        """A leader came by. `active`: how many Runs of this schedule had not ended."""
        if not self.enabled or self.next_slot is None or self.next_slot > now:
            return Slots()
        paused = self._pass_pause(now)
        due: list[dt.datetime] = []
        if self.next_slot is not None:
            due = self._fresh(self.beat.between(self.next_slot, now))
        grace = dt.timedelta(seconds=self.grace)
        on_time = [slot for slot in due if now - slot <= grace]
        late = [slot for slot in due if now - slot > grace]
        allowed = {"skip": 0, "catch_up_one": 1, "catch_up_all": self.max_catch_up}[self.misfire]
        split = max(len(late) - allowed, 0)
        wanted = [*late[split:], *on_time]
        room = len(wanted)
        if self.overlap != "concurrent":
            room = max((2 if self.overlap == "queue" else 1) - active, 0)
            if room and self.misfire == "catch_up_all":
                room = len(wanted)  # one after the other
        self._done(paused + due)
        self.next_slot = self.beat.after(now)
        if self.is_paused and self.paused_until is not None and self.paused_until <= now:
            self.is_paused, self.paused_until = False, None
        return Slots(
            run=tuple(wanted[:room]),
            overflow=tuple(wanted[room:]),
            missed=tuple(late[:split]),
            paused=tuple(paused),
        )

    def resume(self, now: dt.datetime) -> Slots:
        """The pause is over: what fell into it has passed."""
        paused = self._pass_pause(now)
        self._done(paused)
        self.is_paused, self.paused_until = False, None
        return Slots(paused=tuple(paused))

    def mend(self, now: dt.datetime) -> None:
        """A next slot that lies further away than the rule says was set by a wrong clock."""
        if not self.enabled:
            self.next_slot = None
        elif self.next_slot is None or self.next_slot > now + dt.timedelta(seconds=5):
            # Slots that it has had are not waited for again after the clock was set back.
            self.next_slot = self.beat.after(max(now, self.watermark or now))

    def _pass_pause(self, now: dt.datetime) -> list[dt.datetime]:
        """Leave out the slots of a pause; returns those that nobody had dealt with."""
        if not self.is_paused or self.next_slot is None:
            return []
        end = now if self.paused_until is None else min(self.paused_until, now)
        if self.next_slot > end:
            return []
        passed = self._fresh(self.beat.between(self.next_slot, end))
        self.next_slot = self.beat.after(end)
        return passed

    def _fresh(self, slots: list[dt.datetime]) -> list[dt.datetime]:
        """Without those that were dealt with before the clock was set back."""
        return [slot for slot in slots if self.watermark is None or slot > self.watermark]

    def _done(self, slots: list[dt.datetime]) -> None:
        self.watermark = max([*slots, *([self.watermark] if self.watermark else [])], default=None)
