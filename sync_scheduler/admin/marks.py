"""Marks: a state as a shape, a word and a colour, in that order.

The shape and the word carry the meaning; the colour only repeats it. Red is for failures alone.
"""

from __future__ import annotations

import dataclasses

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from sync_scheduler.lifecycle import Reason, State

# Drawn in a square of 16; every shape can be told from every other without its colour.
_SHAPES = {
    "tick": "M2.5 8.5 6.5 12.5 13.5 4",
    "cross": "M3.5 3.5 12.5 12.5 M12.5 3.5 3.5 12.5",
    "play": "M4.5 3 13 8 4.5 13Z",
    "alarm": "M8 2.5V9.5 M8 12.5V13.5",
    "diamond": "M8 2 14 8 8 14 2 8Z",
    "dash": "M3 8H13",
    "bars": "M5.5 3V13 M10.5 3V13",
    "circle": "M8 2.5A5.5 5.5 0 1 1 7.99 2.5Z",
    "bent": "M2.5 9.5 6.5 13 13.5 5.5 M3.5 3.5H3.6",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`tone` names the colour, `shape` the drawing, `word` what a person reads."""

    tone: str
    shape: str
    word: str | Promise

    @property
    def path(self) -> str:
        return _SHAPES[self.shape]

    @property
    def icon(self) -> SafeString:
        """The shape with the word as its name, where there is no room for text."""
        return format_html(
            '<svg class="ss-mark ss-{}" viewBox="0 0 16 16" role="img" aria-label="{}">'
            '<title>{}</title><path d="{}"/></svg>',
            self.tone,
            self.word,
            self.word,
            self.path,
        )

    @property
    def html(self) -> SafeString:
        """Shape and word."""
        return self.saying(self.word)

    def saying(self, text: str | Promise) -> SafeString:
        """The shape before other words."""
        return format_html(
            '<span class="ss-state ss-{}"><svg class="ss-mark" viewBox="0 0 16 16"'
            ' aria-hidden="true" focusable="false"><path d="{}"/></svg> <span>{}</span></span>',
            self.tone,
            self.path,
            text,
        )


OK = Mark(tone="ok", shape="tick", word=_("completed"))
OK_LATE = Mark(tone="ok", shape="bent", word=_("completed on retry"))
FAILED = Mark(tone="failed", shape="cross", word=_("failed"))
TIMED_OUT = Mark(tone="failed", shape="cross", word=_("timed out"))
RUNNING = Mark(tone="running", shape="play", word=_("running"))
RETRYING = Mark(tone="alarm", shape="alarm", word=_("will be retried"))
STUCK = Mark(tone="alarm", shape="alarm", word=_("stuck"))
WARNING = Mark(tone="alarm", shape="alarm", word=_("attention"))
MISSED = Mark(tone="missed", shape="diamond", word=_("missed"))
SKIPPED = Mark(tone="quiet", shape="dash", word=_("skipped"))
CANCELLED = Mark(tone="quiet", shape="dash", word=_("cancelled"))
PAUSED = Mark(tone="quiet", shape="bars", word=_("paused"))
OFF = Mark(tone="quiet", shape="bars", word=_("switched off"))
WAITING = Mark(tone="due", shape="circle", word=_("waiting"))
DUE = Mark(tone="due", shape="circle", word=_("due"))
OVERDUE = Mark(tone="alarm", shape="alarm", word=_("overdue"))
ENDED = Mark(tone="quiet", shape="dash", word=_("has ended"))

_OF_STATUS = {
    State.SUBMITTED: WAITING,
    State.RUNNING: RUNNING,
    State.COMPLETED: OK,
    State.FAILED: FAILED,
    State.TIMED_OUT: TIMED_OUT,
    State.CANCELLED: CANCELLED,
    State.SKIPPED: SKIPPED,
}
MISSED_REASONS = frozenset({Reason.MISFIRE, Reason.CATCH_UP_LIMIT, Reason.UNKNOWN_JOB})


def of_run(status: str, *, attempt: int = 0, reason: str = "") -> Mark:
    """The mark of a Run in this state."""
    if status == State.SUBMITTED and attempt > 0:
        return RETRYING
    if status == State.COMPLETED and attempt > 1:
        return OK_LATE
    if status == State.SKIPPED and reason in MISSED_REASONS:
        return MISSED
    return _OF_STATUS[State(status)]
